#include "common/app/texts/parquet_texts.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <span>
#include <utility>

#include "common/app/images/unreadable_item.hpp"
#include "common/base/error.hpp"
#include "common/base/files.hpp"
#include "common/base/utf8.hpp"

namespace offramp {
namespace {

constexpr std::uint64_t kMostGroupBytes = std::uint64_t{8} << 30U;  // a few kilobytes can claim terabytes

[[noreturn]] void refuse_table(const std::string& input, const std::string& why, ErrorKind kind,
                               const std::string& remedy = {}) {
    throw ConfigError("--input '" + printable(input) + "': " + why, remedy, kind);
}

std::unique_ptr<ParquetRows> open_table(const std::string& input) {
    constexpr const char* kTableForm = "Give a Parquet file with a column of ids and one of texts";
    if (input.empty())
        refuse_table(input, "the source parquet-text needs an input and none is given", ErrorKind::NoInput, kTableForm);
    bool is_empty = false;
    bool is_json = false;
    try {
        const RegularFile file(input);
        is_empty = file.size() == 0;
        char first = 0;
        is_json = file.read_at(0, std::as_writable_bytes(std::span(&first, 1))) == 1 && first == '{';
    } catch (const Error& problem) {
        refuse_table(input, problem.what(), problem.kind(), kTableForm);
    }
    if (is_empty) refuse_table(input, "it is empty", ErrorKind::NoInput, kTableForm);
    if (is_json)
        refuse_table(input, "it is not a Parquet file: it begins with '{', as JSON lines do", ErrorKind::BadInput,
                     "For JSON lines give --source jsonl-text");
    const ParquetRowsModule& module = parquet_rows_library();
    try {
        return module.open(input, kMostGroupBytes);
    } catch (const Error& problem) {
        refuse_table(input, problem.what(), problem.kind());
    }
}

}  // namespace

ParquetTexts::ParquetTexts(const InputSettings& config, const StillWanted& still_wanted)
    : ParquetTexts(config, open_table(config.input), still_wanted) {}

ParquetTexts::ParquetTexts(const InputSettings& config, std::unique_ptr<ParquetRows> rows,
                           const StillWanted& still_wanted)
    : ListedTexts(config), rows_(std::move(rows)) {
    read_rows(still_wanted);
}

void ParquetTexts::read_rows(const StillWanted& still_wanted) {
    TextListing listing(chosen(), "row");
    begins_.push_back(0);
    bool in_rows = false;
    std::uint64_t row = 0;
    try {
        read_ = chosen().chosen_of(rows_->columns());
        const std::vector<std::uint64_t> groups = rows_->rows_of_groups();
        for (std::size_t group = 0; group < groups.size(); ++group) {
            begins_.push_back(begins_.back() + groups[group]);
            if (still_wanted) still_wanted();
            rows_->read(group, read_, [&](nlohmann::json&& object) {
                ++row;
                in_rows = true;
                listing.add(row, std::move(object));
                in_rows = false;
            });
            if (row != begins_.back())
                throw Error(ErrorKind::BadInput,
                            "row group " + std::to_string(group + 1) + " has " + std::to_string(row - begins_[group]) +
                                " rows, but " + std::to_string(groups[group]) + " in the file's footer",
                            "Write the file again");
        }
        if (row == 0)
            refuse_table(input(), "it has no rows", ErrorKind::NoInput, "Give a file with a row for each text");
        listing.end();
    } catch (const ConfigError&) {
        throw;
    } catch (const Error& problem) {
        refuse_table(input(), (in_rows ? "row " + std::to_string(row) + ": " : std::string()) + problem.what(),
                     problem.kind());
    }
    keep(std::move(listing));
}

std::string ParquetTexts::description() const { return std::to_string(size()) + " rows of " + printable(input()); }

std::string ParquetTexts::origin(std::uint64_t number) const {
    return printable(input()) + " row " + std::to_string(number + 1);
}

std::size_t ParquetTexts::group_of(std::uint64_t number) const {
    return static_cast<std::size_t>(std::upper_bound(begins_.begin(), begins_.end(), number) - begins_.begin() - 1);
}

ParquetTexts::Groups::Read ParquetTexts::read_group(std::size_t group, bool of_text) const {
    Groups::Read read;
    const std::vector<std::string> columns = of_text ? std::vector<std::string>{read_[0], read_[1]} : read_;
    try {
        rows_->read(group, columns, [&](nlohmann::json&& object) {
            TextRow row = chosen().row_of(std::move(object));
            read.bytes += sizeof(std::optional<TextRow>);
            if (!is_as_listed(begins_[group] + read.value.size(), row, !of_text))
                return void(read.value.emplace_back());
            if (of_text)
                row = {.id = {}, .text = std::move(row.text), .columns = {}};
            else
                row.text = {};
            read.bytes += row.id.size() + row.text.size() + row.columns.size();
            read.value.emplace_back(std::move(row));
        });
    } catch (const Error& problem) {
        if (problem.kind() == ErrorKind::System) throw;  // out of memory
        throw UnreadableItem(std::string("the file was changed: ") + problem.what());
    }
    return read;
}

TextRow ParquetTexts::row(Groups& kept, std::uint64_t number, bool of_text) const {
    const std::size_t group = group_of(number);
    const std::lock_guard lock(mutex_);
    const auto& rows = kept.of(group, [&](std::uint64_t missing) { return read_group(missing, of_text); });
    const std::uint64_t at = number - begins_[group];
    if (at >= rows.size()) throw UnreadableItem("the file was changed: it has fewer rows");
    if (!rows[at]) throw UnreadableItem(kRowWasChanged);
    return *rows[at];
}

bool ParquetTexts::is_as_listed(std::uint64_t number, const TextRow& row, bool with_columns) const {
    if (number >= size()) return false;  // rows were appended to the last group
    const RowHashes now = RowHashes::of(row);
    return with_columns ? now == listed(number) : now.id_and_text == listed(number).id_and_text;
}

BesideText ParquetTexts::beside(std::uint64_t number) const {
    TextRow taken = row(beside_, number, false);
    return {.id = std::move(taken.id), .columns = std::move(taken.columns)};
}

}  // namespace offramp
