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

// The rows of a Parquet file. Owns the open file. Caches the texts and the other columns of recently read row groups
// (RecentlyRead). A row that has changed since the listing is unreadable. Blocks: the constructor reads the whole file,
// one row group at a time. Errors: the constructor: ConfigError with the file, the row's number from 1, the value and
// the remedy: Usage: no module; NoInput: no such file, no rows; BadInput: a truncated file, or an invalid row
// (TextListing).
class ParquetTexts final : public ListedTexts {
  public:
    explicit ParquetTexts(const InputSettings& config, const StillWanted& still_wanted = {});
    // For a file that is already open.
    ParquetTexts(const InputSettings& config, std::unique_ptr<ParquetRows> rows, const StillWanted& still_wanted = {});

    std::string description() const override;
    BesideText beside(std::uint64_t number) const override;
    std::string origin(std::uint64_t number) const override;

  private:
    // The requested part of a row group's rows; an entry is empty if the row has changed.
    using Groups = RecentlyRead<std::vector<std::optional<TextRow>>>;

    std::string whole_text(std::uint64_t number) const override { return row(texts_, number, true).text; }
    void read_rows(const StillWanted& still_wanted);
    bool is_as_listed(std::uint64_t number, const TextRow& row, bool with_columns) const;
    std::size_t group_of(std::uint64_t number) const;
    // `of_text`: only the text; otherwise the id and the other columns.
    TextRow row(Groups& kept, std::uint64_t number, bool of_text) const;
    Groups::Read read_group(std::size_t group, bool of_text) const;

    std::vector<std::string> read_;      // columns
    std::vector<std::uint64_t> begins_;  // the first row of each row group, and the end of the last
    mutable std::mutex mutex_;           // guards the members below
    std::unique_ptr<ParquetRows> rows_;
    mutable Groups texts_, beside_;
};

}  // namespace offramp
