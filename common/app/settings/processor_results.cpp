#include "common/app/settings/processor_results.hpp"

#include <algorithm>
#include <array>
#include <initializer_list>
#include <iterator>
#include <utility>

#include "common/app/settings/declarations.hpp"
#include "common/app/settings/declared_setting.hpp"
#include "common/app/settings/sections.hpp"
#include "common/base/error.hpp"

namespace offramp {
namespace {

template <auto kMember, class Value>
bool take_word(ProcessorResults& results, const std::string& text,
               std::initializer_list<std::pair<std::string_view, Value>> words) {
    for (const auto& [word, value] : words)
        if (text == word) {
            results.*kMember = value;
            return true;
        }
    return false;
}

// True if the text can be part of a file name: files of items are named by a key and an ending, in one folder.
bool is_file_name(std::string_view text) {
    return !text.empty() && text != "." && text.find('/') == std::string_view::npos;
}

bool take_endings(ProcessorResults& results, const std::string& text) {
    results.endings = names_in(text);
    return !text.empty() && std::ranges::all_of(results.endings, [](const std::string& ending) {
        return ending.starts_with('.') && is_file_name(ending) && ending.find(' ') == std::string::npos;
    });
}

bool take_whole(ProcessorResults& results, const std::string& text) {
    results.whole = text;
    return is_file_name(text);
}

bool take_reads(ProcessorResults& results, const std::string& text) {
    return take_word<&ProcessorResults::reads, Reads>(
        results, text, {{"masks", Reads::Masks}, {"pictures", Reads::Pictures}, {"vectors", Reads::Vectors}});
}

bool take_looks_at(ProcessorResults& results, const std::string& text) {
    return take_word<&ProcessorResults::looks_at, LooksAt>(
        results, text, {{"pictures", LooksAt::Pictures}, {"items", LooksAt::Items}});
}

bool take_file_names(ProcessorResults& results, const std::string& text) {
    return take_word<&ProcessorResults::names, FileNames>(
        results, text, {{"key", FileNames::Key}, {"key-output", FileNames::KeyAndOutput}});
}

bool take_kept_by(ProcessorResults& results, const std::string& text) {
    return take_word<&ProcessorResults::kept_by_key, bool>(results, text, {{"key", true}});
}

bool take_tiles(ProcessorResults& results, const std::string& text) {
    return take_word<&ProcessorResults::puts_tiles_together, bool>(results, text, {{"together", true}});
}

bool take_chosen_for(ProcessorResults& results, const std::string& text) {
    return take_word<&ProcessorResults::is_for_vectors, bool>(results, text, {{"vectors", true}});
}

bool take_settings(ProcessorResults& results, const std::string& text) {
    results.shared_settings = names_in(text);
    return std::ranges::all_of(results.shared_settings, [](const std::string& flag) {
        return std::ranges::find(DeclaredSetting::all(), flag, &DeclaredSetting::flag) != DeclaredSetting::all().end();
    });
}

const KeysOf<ProcessorResults>& keys_of_results() {
    static const KeysOf<ProcessorResults> known{{"of", take_text<ProcessorResults, &ProcessorResults::processor>},
                                                {"reads", take_reads},
                                                {"looks-at", take_looks_at},
                                                {"endings", take_endings},
                                                {"names", take_file_names},
                                                {"whole", take_whole},
                                                {"table", take_text<ProcessorResults, &ProcessorResults::table>},
                                                {"kept-by", take_kept_by},
                                                {"chosen-for", take_chosen_for},
                                                {"tiles", take_tiles},
                                                {"settings", take_settings}};
    return known;
}

ProcessorResults read_table(const TomlTable& table, const CatalogueSource& source) {
    ProcessorResults results{.processor = std::string(source.plug_in)};
    for (const TomlEntry& entry : table.entries) {
        if (entry.type != TomlType::String && keys_of_results().contains(entry.key))
            refuse_declaration(source, entry.line, entry.key + " is '" + entry.text + "'");
        take_entry(results, keys_of_results(), entry, source, "results");
        if (entry.key == "names" && std::ranges::find(table.entries, "endings", &TomlEntry::key) == table.entries.end())
            refuse_declaration(source, entry.line, entry.key + " needs endings, those of the files of an item");
    }
    if (results.processor.empty()) refuse_declaration(source, table.line, "[results] needs of, the processor's name");
    return results;
}

[[noreturn]] void refuse_twice(const std::string& what, const CatalogueSource& source) {
    throw ConfigError(what + " declared twice, in " + std::string(source.file) + " once more", "Leave one of them out",
                      ErrorKind::Config);
}

std::vector<ProcessorResults> read_all() {
    std::vector<ProcessorResults> all;
    for (const CatalogueSource& source : CatalogueSource::all()) {
        std::optional<ProcessorResults> results = read_results(source);
        if (!results) continue;
        if (std::ranges::find(all, results->processor, &ProcessorResults::processor) != all.end())
            refuse_twice("the results of " + results->processor + " are", source);
        if (results->is_for_vectors && std::ranges::any_of(all, [&](const ProcessorResults& other) {
                return other.is_for_vectors && other.table.empty() == results->table.empty();
            }))
            refuse_twice("the processor of a run of vectors is", source);
        all.push_back(std::move(*results));
    }
    return all;
}

constexpr std::array<std::pair<std::string_view, ProcessorSpec::Kind>, 3> kKinds{
    {{"so:", ProcessorSpec::Kind::SharedObject},
     {"python:", ProcessorSpec::Kind::Python},
     {"exec:", ProcessorSpec::Kind::Executable}}};

std::string_view file_name(std::string_view path) { return path.substr(path.rfind('/') + 1); }

std::string folder_of(ProcessorSpec::Kind kind, std::string_view what) {
    std::string folder(kind == ProcessorSpec::Kind::Executable ? file_name(what.substr(0, what.find(' ')))
                                                               : file_name(what));
    std::ranges::replace(folder, ':', '-');
    return folder;
}

}  // namespace

std::optional<ProcessorResults> read_results(const CatalogueSource& source) {
    const TomlDocument document = declarations_of(source);
    return document.single ? std::optional(read_table(*document.single, source)) : std::nullopt;
}

std::span<const ProcessorResults> ProcessorResults::all() {
    static const std::vector<ProcessorResults> results = read_all();
    return results;
}

const ProcessorResults* ProcessorResults::of(std::string_view processor) {
    const std::span<const ProcessorResults> known = all();
    const auto found = std::ranges::find(known, processor, &ProcessorResults::processor);
    return found == known.end() ? nullptr : &*found;
}

bool may_end_result(std::string_view processor, std::string_view file) {
    const ProcessorResults* const known = ProcessorResults::of(processor);
    return known == nullptr ||
           std::ranges::any_of(known->endings, [&](const std::string& ending) { return file.ends_with(ending); });
}

std::vector<std::string> tables_of(const ResultSettings& run) {
    std::vector<std::string> tables;
    for (const std::string& processor : run.processors())
        if (const ProcessorResults* const known = ProcessorResults::of(processor);
            known != nullptr && !known->table.empty())
            tables.push_back(run.table_for(known->table));
    return tables;
}

const std::string& processor_for_vectors(const ResultSettings& run) {
    const std::span<const ProcessorResults> all = ProcessorResults::all();
    const auto found = std::ranges::find_if(all, [&](const ProcessorResults& results) {
        return results.is_for_vectors && results.table.empty() != run.has_database();
    });
    expect(found != all.end(), "some processor is for vectors");
    return found->processor;
}

std::span<const std::string> endings_of_items() {
    static const std::vector<std::string> endings = [] {
        std::vector<std::string> known{".jpeg"};  // not an Offramp ending, but plausible
        for (const ProcessorResults& results : ProcessorResults::all())
            for (const std::string& ending : results.endings)
                if (std::ranges::find(known, ending) == known.end()) known.push_back(ending);
        return known;
    }();
    return endings;
}

std::optional<ProcessorSpec> ProcessorSpec::of(std::string_view name) {
    ProcessorSpec spec;
    const auto* const kind = std::ranges::find_if(kKinds, [&](const auto& one) { return name.starts_with(one.first); });
    if (kind != kKinds.end()) {
        spec.kind = kind->second;
        spec.what = name.substr(kind->first.size());
    } else if (name.find(".py:") != std::string_view::npos || name.ends_with(".py")) {
        spec.kind = Kind::Python;
        spec.what = name;
    } else {
        return std::nullopt;
    }
    if (spec.what.empty())
        throw ConfigError("processor " + std::string(name) + " has nothing after the colon",
                          "Give a path or a command there");
    const auto colon = spec.what.rfind(':');
    if (spec.kind == Kind::Python && (colon == std::string::npos || colon == 0 || colon + 1 == spec.what.size()))
        throw ConfigError("processor " + std::string(name) + " names no function",
                          "Give FILE.py:FUNCTION, or python:PACKAGE.MODULE:FUNCTION");
    spec.folder = folder_of(spec.kind, spec.what);
    if (spec.folder.empty() || spec.folder.front() == '.')
        throw ConfigError("processor " + std::string(name) + " names no file", "Give a file name after the last slash");
    return spec;
}

}  // namespace offramp
