#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "common/app/images/item_keys.hpp"
#include "common/app/images/picture_list.hpp"
#include "common/app/settings/sections.hpp"
#include "common/app/texts/text_table.hpp"
#include "common/base/string_index.hpp"

namespace offramp {

// A row of a table of texts.
struct TextRow {
    std::string id;
    std::string text;
    std::string columns;  // in the form of BesideText::columns
};

// What a listing stores about a row. Hashes detect changes since the listing.
struct RowHashes {
    std::uint32_t text_bytes = 0, text_characters = 0;
    std::uint64_t content = 0;  // id, text and columns: TextTable::hash()
    std::uint64_t id_and_text = 0;

    static RowHashes of(const TextRow& row);
    bool operator==(const RowHashes&) const = default;
};

// The reason of an UnreadableItem.
inline constexpr const char* kRowWasChanged = "the row was changed since it was listed";

// The columns of a table that hold a text's id, the text, and the data to pass through.
class TextColumns {
  public:
    // --id-column, --text-column, --columns. Errors: ConfigError (Usage) when a column is named twice.
    explicit TextColumns(const InputSettings& config);

    const std::string& id() const { return id_; }
    const std::string& text() const { return text_; }
    // The columns to read from a table with the columns `there`; id and text come first. Errors: Error (BadInput) with
    // the table's columns if a column is missing or occurs twice.
    std::vector<std::string> chosen_of(const std::vector<std::string>& there) const;

    // Splits a row, a JSON object. Errors: Error (BadInput), without the row's position: the id is missing, null, or
    // neither text nor a whole number; the text is missing, null, or not text.
    TextRow row_of(nlohmann::json&& row) const;

  private:
    friend class TextListing;
    bool hands_through(const std::string& name) const;
    bool names_all() const { return further_.empty(); }

    std::string id_, text_;
    std::vector<std::string> further_;  // empty: all columns
};

// Collects a table's rows in order, and rejects invalid rows. Thread: one.
class TextListing {
  public:
    // `unit`: the noun for a row, "line" or "row". Borrows `columns`.
    TextListing(const TextColumns& columns, std::string unit) : columns_(columns), unit_(std::move(unit)) {}

    // `place`: the row's number in the file, from 1. Errors: Error (BadInput), without the row's position: those of
    // TextColumns::row_of(); an id that another row has; a value whose type differs from the column's earlier values.
    void add(std::uint64_t place, nlohmann::json&& row);
    // Makes the keys. Errors: Error (BadInput) if --columns names a column that no row has.
    void end();

    StringList ids;  // until end()
    ItemKeys keys;   // from end() on
    std::vector<RowHashes> hashes;

  private:
    struct Seen {
        std::string_view type;  // a constant
        std::uint64_t place = 0;
    };

    const TextColumns& columns_;
    const std::string unit_;
    StringIndex rows_;                   // by id, until end()
    std::vector<std::uint64_t> places_;  // of the rows, until end()
    std::unordered_map<std::string, Seen> types_;
    std::unordered_set<std::string> names_;
};

// Common base of text tables: holds each row's key, and hashes that detect changes since the listing.
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
    // Takes over the completed listing. Call it once.
    void keep(TextListing&& listing);
    const std::string& input() const { return input_; }
    const TextColumns& chosen() const { return chosen_; }
    const RowHashes& listed(std::uint64_t number) const { return hashes_[number]; }
    // The text of any length. Errors: UnreadableItem.
    virtual std::string whole_text(std::uint64_t number) const = 0;

  private:
    std::string input_;
    TextColumns chosen_;
    std::uint64_t longest_;  // the longest accepted text, in bytes
    ItemKeys keys_;
    std::vector<RowHashes> hashes_;
};

// Lists the texts of --input for --source: "jsonl-text" or "parquet-text" (gives_text_tables() in common/app/settings).
// Errors: ConfigError with the file, the line or row, the value and the remedy: Usage: a column is named twice, or the
// Parquet module is missing; NoInput: a missing or empty file; BadInput: not an input of that source.
std::unique_ptr<TextTable> open_texts(const InputSettings& config, const StillWanted& still_wanted = {});

// A producer stores the hashes of its listed rows in the run directory. Consumers list the same input themselves, and
// must take a sample's data from the same text or picture that the producer used.

// Call it before consumers can join the run. `path`: run_files::kListedRows. `readable_by_group`: consumers of another
// user may read the file. Errors: SystemError (CannotWrite).
void keep_listed_rows(const std::string& path, const TextTable& texts, bool readable_by_group);
void keep_listed_rows(const std::string& path, const PictureList& pictures, bool readable_by_group);

// Compares the rows with the stored rows; rows may have been appended since. Does nothing if the run has stored none,
// such as a custom program's run. Errors, which a retry does not fix: Error (BadInput) if the rows differ,
// ProtocolError if the stored rows cannot be read.
void require_listed_rows(const std::string& path, const TextTable& texts);
void require_listed_rows(const std::string& path, const PictureList& pictures);

}  // namespace offramp
