#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "common/app/images/picture_list.hpp"
#include "common/app/texts/listed_texts.hpp"
#include "common/app/texts/parquet_rows.hpp"
#include "common/app/texts/recently_read.hpp"

namespace offramp {

// The rows of a Parquet file. Owns the open file; keeps the texts and the other columns of the last requested row
// groups, as many as RecentlyRead holds. They must be as listed. Blocks: the constructor reads the whole file, a row
// group at a time. Errors: the constructor: ConfigError with the file, the row's number from 1, the value and the
// remedy: Usage: no module; NoInput: no such file, no rows; BadInput: a file that is cut, or a row that is none of
// texts (TextListing).
class ParquetTexts final : public ListedTexts {
  public:
    explicit ParquetTexts(const InputSettings& config, const StillWanted& still_wanted = {});
    // Texts of an open file.
    ParquetTexts(const InputSettings& config, std::unique_ptr<ParquetRows> rows, const StillWanted& still_wanted = {});

    std::string description() const override;
    BesideText beside(std::uint64_t number) const override;
    std::string origin(std::uint64_t number) const override;

  private:
    // A row group's rows as far as they are wanted; nothing: the row was changed.
    using Groups = RecentlyRead<std::vector<std::optional<TextRow>>>;

    std::string whole_text(std::uint64_t number) const override { return row(texts_, number, true).text; }
    void read_rows(const StillWanted& still_wanted);
    bool is_as_listed(std::uint64_t number, const TextRow& row, bool with_columns) const;
    std::size_t group_of(std::uint64_t number) const;
    // The text alone, or the others.
    TextRow row(Groups& kept, std::uint64_t number, bool of_text) const;
    Groups::Read read_group(std::size_t group, bool of_text) const;

    std::vector<std::string> read_;      // columns
    std::vector<std::uint64_t> begins_;  // of each row group, and the end of the last
    mutable std::mutex mutex_;           // of what follows
    std::unique_ptr<ParquetRows> rows_;
    mutable Groups texts_, beside_;
};

}  // namespace offramp
