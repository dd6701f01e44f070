#include "common/app/texts/listed_texts.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string_view>
#include <system_error>
#include <utility>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "common/app/images/unreadable_item.hpp"
#include "common/app/texts/jsonl_texts.hpp"
#include "common/app/texts/parquet_texts.hpp"
#include "common/base/error.hpp"
#include "common/base/files.hpp"
#include "common/base/utf8.hpp"
#include "common/json/json_text.hpp"

namespace offramp {

void ListedTexts::keep(TextListing&& listing) {
    keys_ = std::move(listing.keys);
    hashes_ = std::move(listing.hashes);
}

std::string ListedTexts::text(std::uint64_t number) const {
    std::string text = whole_text(number);
    if (text.size() > longest_)
        throw UnreadableItem("its text is longer than " + std::to_string(longest_ >> 20U) +
                             " MiB: " + std::to_string(text.size()) + " bytes" +
                             (longest_ == kLongestText ? "; --chunk-tokens cuts longer ones" : ""));
    return text;
}

std::unique_ptr<TextTable> open_texts(const InputSettings& config, const StillWanted& still_wanted) {
    if (config.source == "jsonl-text") return std::make_unique<JsonlTexts>(config, still_wanted);
    expect(config.source == "parquet-text", "it is asked first whether a source gives tables of texts");
    return std::make_unique<ParquetTexts>(config, still_wanted);
}

namespace {

// Hash of the row's id, text and columns.
std::uint64_t hash_of(const TextTable& texts, std::uint64_t number) { return texts.hash(number); }

std::uint64_t hash_of(const PictureList& pictures, std::uint64_t number) {
    const std::string_view key = pictures.key(number);
    return XXH3_64bits_withSeed(key.data(), key.size(), pictures.listed_hash(number));
}

// The number `rows`, and a hash of the contents of the first `rows` rows.
template <class List>
std::string serialize(const List& list, std::uint64_t rows) {
    XXH64_hash_t hash = 0;
    for (std::uint64_t number = 0; number < rows; ++number) {
        const std::uint64_t row = hash_of(list, number);
        hash = XXH3_64bits_withSeed(&row, sizeof row, hash);
    }
    return fmt::format("{} {:016x}", rows, hash);
}

void keep(const std::string& path, const std::string& content, bool readable_by_group) {
    const mode_t mode = readable_by_group ? 0640 : 0600;
    WholeFile file(path, mode, [&](int problem) {
        return SystemError("writing " + path, problem, "Give the run a directory that this user may write to",
                           ErrorKind::CannotWrite);
    });
    file.set_mode(mode);
    file.write(content + "\n");
    file.put_in_place();
}

template <class List>
void require(const std::string& path, const List& list) {
    std::error_code ignored;
    if (!std::filesystem::exists(path, ignored)) return;
    std::ifstream file(path);
    std::uint64_t rows = 0;
    std::string content;
    if (!std::getline(file, content) ||
        std::from_chars(content.data(), content.data() + content.size(), rows).ec != std::errc())
        throw ProtocolError(path + " cannot be read, or is damaged", "Start the run again, with --resume");
    if (list.size() < rows || serialize(list, rows) != content)
        throw Error(ErrorKind::BadInput,
                    list.description() + ": the first " + std::to_string(rows) +
                        " rows are not those that the run began with: a row was changed, removed or inserted",
                    "Restore the original rows and give --resume, or begin another run with another --output");
}

using nlohmann::json;

constexpr std::size_t kShownBytes = 60;

[[noreturn]] void refuse_row(const std::string& why, const std::string& remedy) {
    throw Error(ErrorKind::BadInput, why, remedy);
}

std::string in_quotes(std::string_view name) { return "\"" + printable(name) + "\""; }

std::string shown(const json& value) {
    const std::string text = json_text(value);
    return printable(utf8_prefix(text, kShownBytes)) + (text.size() > kShownBytes ? "..." : "");
}

std::string listed(const std::vector<std::string>& names) {
    std::string list;
    for (const std::string& name : names) list += (list.empty() ? "" : ", ") + in_quotes(name);
    return list.empty() ? "none" : list;
}

std::vector<std::string> split(const std::string& list) {
    std::vector<std::string> names;
    for (std::size_t at = 0; at <= list.size() && !list.empty();) {
        const std::size_t end = std::min(list.find(',', at), list.size());
        names.push_back(list.substr(at, end - at));
        at = end + 1;
    }
    return names;
}

struct TypeName {
    const char* one;
    const char* list_of;
};
constexpr const char* kListOfNothing = "a list";  // its element type is unknown

TypeName type_name(const json& value) {
    if (value.is_number()) return {"a number", "a list of numbers"};
    if (value.is_string()) return {"text", "a list of texts"};
    if (value.is_boolean()) return {"true or false", "a list of true or false"};
    if (value.is_array()) return {kListOfNothing, "a list of lists"};
    return {"an object", "a list of objects"};
}

// The type that a column's values must share. Contents of nested lists are not checked.
const char* type_of(const json& value) {
    if (!value.is_array()) return type_name(value).one;
    const char* type = kListOfNothing;
    for (const json& element : value) {
        if (element.is_null()) continue;
        const char* const of_this = type_name(element).list_of;
        if (type != kListOfNothing && std::string_view(type) != of_this) return "a list of several types";
        type = of_this;
    }
    return type;
}

bool is_list(std::string_view type) { return type.starts_with(kListOfNothing); }

json& member(json& row, const std::string& name, const char* what, const char* flag) {
    const auto found = row.find(name);
    if (found != row.end() && !found->is_null()) return *found;
    refuse_row(found == row.end() ? "it has no " + in_quotes(name) + ", which is the " + what
                                  : "its " + in_quotes(name) + ", which is the " + what + ", is null",
               std::string("Give each row one, or name another column with ") + flag);
}

std::string take_id(json& row, const std::string& name) {
    const json& id = member(row, name, "id", "--id-column");
    if (id.is_number_integer()) return json_text(id);
    if (!id.is_string())
        refuse_row("its id " + in_quotes(name) + " is " + type_name(id).one + ": " + shown(id),
                   "Ids are texts or whole numbers; or name another column with --id-column");
    if (id.get_ref<const std::string&>().empty())
        refuse_row("its id " + in_quotes(name) + " is empty",
                   "Give each row an id, or name another column with --id-column");
    return id.get<std::string>();
}

}  // namespace

void keep_listed_rows(const std::string& path, const TextTable& texts, bool readable_by_group) {
    keep(path, serialize(texts, texts.size()), readable_by_group);
}

void keep_listed_rows(const std::string& path, const PictureList& pictures, bool readable_by_group) {
    keep(path, serialize(pictures, pictures.size()), readable_by_group);
}

void require_listed_rows(const std::string& path, const TextTable& texts) { require(path, texts); }

void require_listed_rows(const std::string& path, const PictureList& pictures) { require(path, pictures); }

RowHashes RowHashes::of(const TextRow& row) {
    const std::uint64_t text = XXH3_64bits(row.text.data(), row.text.size());
    const std::uint64_t id_and_text = XXH3_64bits_withSeed(row.id.data(), row.id.size(), text);
    return {.text_bytes = static_cast<std::uint32_t>(std::min<std::size_t>(row.text.size(), UINT32_MAX)),
            .text_characters = static_cast<std::uint32_t>(utf8_characters(row.text)),
            .content = XXH3_64bits_withSeed(row.columns.data(), row.columns.size(), id_and_text),
            .id_and_text = id_and_text};
}

TextColumns::TextColumns(const InputSettings& config)
    : id_(config.id_column), text_(config.text_column), further_(split(config.columns)) {
    std::unordered_set<std::string> names{id_};
    if (id_ == text_)
        throw ConfigError("--id-column and --text-column both name '" + printable(id_) + "'",
                          "Give each its own column");
    names.insert(text_);
    for (const std::string& name : further_) {
        if (!names.insert(name).second)
            throw ConfigError("--columns '" + printable(config.columns) + "' names '" + printable(name) +
                                  "', which is already included",
                              "Name each column once, and neither the id nor the text column");
    }
}

std::vector<std::string> TextColumns::chosen_of(const std::vector<std::string>& there) const {
    std::vector<std::string> chosen{id_, text_};
    for (const std::string& name : names_all() ? there : further_)
        if (name != id_ && name != text_) chosen.push_back(name);
    for (std::size_t i = 0; i < chosen.size(); ++i) {
        const auto times = std::count(there.begin(), there.end(), chosen[i]);
        if (times == 1) continue;
        const char* const flag = i == 0 ? "--id-column" : i == 1 ? "--text-column" : "--columns";
        if (times > 1)
            refuse_row("it has " + std::to_string(times) + " columns " + in_quotes(chosen[i]),
                       i < 2 ? std::string("Name a column that appears once with ") + flag
                             : "Select the columns you need with --columns, or rename them");
        refuse_row(
            "it has no column " + in_quotes(chosen[i]) + ", which " + flag + " names; its columns: " + listed(there),
            std::string("Name one of them with ") + flag);
    }
    return chosen;
}

bool TextColumns::hands_through(const std::string& name) const {
    return names_all() || std::find(further_.begin(), further_.end(), name) != further_.end();
}

TextRow TextColumns::row_of(json&& row) const {
    TextRow taken{.id = take_id(row, id_), .text = {}, .columns = {}};
    json& text = member(row, text_, "text", "--text-column");
    if (!text.is_string())
        refuse_row("its text " + in_quotes(text_) + " is " + type_name(text).one + ": " + shown(text),
                   "Texts are strings; or name another column with --text-column");
    taken.text = std::move(text.get_ref<std::string&>());
    row.erase(id_);
    row.erase(text_);
    if (!names_all())
        for (auto at = row.begin(); at != row.end();) at = hands_through(at.key()) ? std::next(at) : row.erase(at);
    taken.columns = json_text(row);
    return taken;
}

void TextListing::add(std::uint64_t place, json&& row) {
    for (const auto& [name, value] : row.items()) {
        if (!columns_.names_all()) names_.insert(name);
        if (value.is_null() || name == columns_.id() || name == columns_.text() || !columns_.hands_through(name))
            continue;
        const std::string_view type = type_of(value);
        const auto [seen, is_new] = types_.try_emplace(name, Seen{type, place});
        if (is_new || seen->second.type == type || (type == kListOfNothing && is_list(seen->second.type))) continue;
        if (seen->second.type == kListOfNothing && is_list(type)) {
            seen->second = {type, place};
            continue;
        }
        refuse_row("its " + in_quotes(name) + " is " + std::string(type) + " (" + shown(value) + "), and in " + unit_ +
                       " " + std::to_string(seen->second.place) + " it is " + std::string(seen->second.type),
                   "Give a column values of one type (null is allowed), or select other columns with --columns");
    }
    const TextRow taken = columns_.row_of(std::move(row));
    if (const auto other = rows_.add(taken.id, ids.size(), [this](auto number) { return ids[number]; }))
        refuse_row("its id '" + printable(utf8_prefix(taken.id, kShownBytes)) + "' is also the id of " + unit_ + " " +
                       std::to_string(places_[*other]),
                   "Results are named by their ids: give each row its own, or name another column with --id-column");
    hashes.push_back(RowHashes::of(taken));
    ids.push_back(taken.id);
    places_.push_back(place);
}

void TextListing::end() {
    for (const std::string& name : columns_.further_)
        if (!names_.contains(name)) {
            std::vector<std::string> there(names_.begin(), names_.end());
            std::sort(there.begin(), there.end());
            refuse_row("no " + unit_ + " has the column " + in_quotes(name) +
                           ", which --columns names; their columns: " + listed(there),
                       "Name some of them with --columns");
        }
    keys = ItemKeys(std::move(ids), NamesAre::Ids);
    rows_ = {};
    places_ = {};
}

}  // namespace offramp
