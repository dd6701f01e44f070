#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "common/app/images/picture_list.hpp"
#include "common/app/settings/sections/input_settings.hpp"
#include "common/app/texts/text_table.hpp"

namespace offramp {

// A row of a table of texts.
struct TextRow {
    std::string id;
    std::string text;
    std::string columns;  // as BesideText has them
};

// The stored facts of a row. Hashes detect changes since the listing.
struct RowHashes {
    std::uint32_t text_bytes = 0, text_characters = 0;
    std::uint64_t content = 0;  // id, text and columns: TextTable::hash()
    std::uint64_t id_and_text = 0;

    static RowHashes of(const TextRow& row);
    bool operator==(const RowHashes&) const = default;
};

// Reason of an UnreadableItem.
inline constexpr const char* kRowWasChanged = "the row was changed since it was listed";

// Which columns of a table are a text's id, the text, and what is handed through.
class TextColumns {
  public:
    // --id-column, --text-column, --columns. Errors: ConfigError (Usage) when a column is named twice.
    explicit TextColumns(const InputSettings& config);

    const std::string& id() const { return id_; }
    const std::string& text() const { return text_; }
    // The columns to read of a table with the columns `there`; the id and the text come first. Errors: Error (BadInput)
    // with the table's columns, if one is missing or occurs twice.
    std::vector<std::string> chosen_of(const std::vector<std::string>& there) const;

    // Takes a row, a JSON object, apart. Errors: Error (BadInput), without the row's place: the id is missing, null, or
    // neither text nor a whole number; the text is missing, null, or not text.
    TextRow row_of(nlohmann::json&& row) const;

  private:
    friend class TextListing;
    bool hands_through(const std::string& name) const;
    bool names_all() const { return further_.empty(); }

    std::string id_, text_;
    std::vector<std::string> further_;  // none: all
};

// Takes the rows of a table in their order, and refuses what no table may have. Thread: one.
class TextListing {
  public:
    // `unit`: what a row is called, "line" or "row". `columns` is borrowed.
    TextListing(const TextColumns& columns, std::string unit) : columns_(columns), unit_(std::move(unit)) {}

    // `place`: its number in the file, from 1. Errors: Error (BadInput): those of TextColumns::row_of(); an id that
    // another row has; a column whose values are of another type than in an earlier row; all without the row's place.
    void add(std::uint64_t place, nlohmann::json&& row);
    // Keys are made, and columns looked for that no row has. Errors: Error (BadInput).
    void end();

    std::vector<std::string> keys;  // ids, until the end
    std::vector<RowHashes> hashes;

  private:
    struct Seen {
        std::string_view type;  // a constant
        std::uint64_t place = 0;
    };

    const TextColumns& columns_;
    const std::string unit_;
    std::unordered_map<std::string, std::uint64_t> ids_;
    std::unordered_map<std::string, Seen> types_;
    std::unordered_set<std::string> names_;
};

// Common base of tables of texts: each row's key, and hashes that detect changes since the listing.
class ListedTexts : public TextTable {
  public:
    std::uint64_t size() const override { return keys_.size(); }
    std::string_view key(std::uint64_t number) const override { return keys_[number]; }
    std::string text(std::uint64_t number) const override;
    std::uint64_t text_bytes(std::uint64_t number) const override { return hashes_[number].text_bytes; }
    std::uint64_t text_characters(std::uint64_t number) const override { return hashes_[number].text_characters; }
    std::uint64_t hash(std::uint64_t number) const override { return hashes_[number].content; }

  protected:
    // Errors: those of TextColumns.
    explicit ListedTexts(const InputSettings& config)
        : input_(config.input), chosen_(config), longest_(config.chunk_tokens > 0 ? kLongestToCut : kLongestText) {}
    // The listing has ended. Once.
    void keep(TextListing&& listing);
    const std::string& input() const { return input_; }
    const TextColumns& chosen() const { return chosen_; }
    const RowHashes& listed(std::uint64_t number) const { return hashes_[number]; }
    // The text, whatever its length. Errors: UnreadableItem.
    virtual std::string whole_text(std::uint64_t number) const = 0;

  private:
    std::string input_;
    TextColumns chosen_;
    std::uint64_t longest_;  // text, in bytes
    std::vector<std::string> keys_;
    std::vector<RowHashes> hashes_;
};

// Lists what --input names, as --source reads it: "jsonl-text" or "parquet-text", one that gives_text_tables()
// (common/app/settings). Errors: ConfigError with the file, the line or row, the value and the remedy: Usage: a column
// is named twice, or there is no module for Parquet; NoInput: a missing or empty file; BadInput: not what the source
// reads.
std::unique_ptr<TextTable> open_texts(const InputSettings& config, const StillWanted& still_wanted = {});

// Which rows a producer has listed is kept in its run's directory: consumers list the same input for themselves, and
// what they say of a sample must be of the text, or the picture, that it was made of.

// Before the run is open to consumers. `path`: run_files::kListedRows. `readable_by_group`: consumers of another user
// are let in. Errors: SystemError (CannotWrite).
void keep_listed_rows(const std::string& path, const TextTable& texts, bool readable_by_group);
void keep_listed_rows(const std::string& path, const PictureList& pictures, bool readable_by_group);

// A run that has kept none, such as a custom program's, requires nothing. Rows may have been
// added at the end. Errors: Error (BadInput) when the rows are not those that were kept, ProtocolError when these
// cannot be read: neither is mended by trying again.
void require_listed_rows(const std::string& path, const TextTable& texts);
void require_listed_rows(const std::string& path, const PictureList& pictures);

}  // namespace offramp
