#include "common/app/settings/setting_checks.hpp"

#include <algorithm>
#include <numeric>
#include <set>
#include <sstream>
#include <utility>
#include <vector>

#include "common/app/settings/parsed_values.hpp"
#include "common/app/settings/processor_results.hpp"
#include "common/app/settings/sections.hpp"
#include "common/base/error.hpp"
#include "common/base/remedy.hpp"
#include "common/base/utf8.hpp"
#include "common/shm/run_objects.hpp"

namespace offramp {
namespace {

using Problem = std::optional<std::string>;

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// The Levenshtein distance, computed one row at a time.
std::size_t edits_between(std::string_view from, std::string_view to) {
    std::vector<std::size_t> row(to.size() + 1);
    std::iota(row.begin(), row.end(), std::size_t{0});
    for (std::size_t i = 0; i < from.size(); ++i) {
        std::size_t diagonal = std::exchange(row[0], i + 1);
        for (std::size_t j = 0; j < to.size(); ++j) {
            const std::size_t replaced = diagonal + (from[i] == to[j] ? 0 : 1);
            diagonal = row[j + 1];
            row[j + 1] = std::min({replaced, row[j] + 1, diagonal + 1});
        }
    }
    return row.back();
}

}  // namespace

Problem check_run_id(const std::string& text) {
    if (text.empty()) return std::nullopt;
    try {
        RunNames::check_run_id(text);
    } catch (const ConfigError&) {
        return "is not a run id";
    }
    return std::nullopt;
}

Problem check_max_errors(const std::string& text) {
    if (!ErrorLimit::parse(text)) return "is neither a number nor a percentage";
    return std::nullopt;
}

Problem check_overlap(const std::string& text) {
    constexpr std::size_t kMostDigits = 4;
    if (text == "auto") return std::nullopt;
    if (text.empty() || !std::ranges::all_of(text, is_digit)) return "is not a whole number";
    if (text.size() > kMostDigits) return "is out of range";
    return std::nullopt;
}

Problem check_by_length(const std::string& text) {
    constexpr std::size_t kMostDigits = 5;
    constexpr unsigned long kMost = 65536;
    if (text == "auto" || text == "off") return std::nullopt;
    if (text.empty() || !std::ranges::all_of(text, is_digit)) return "is not a whole number";
    if (text.size() > kMostDigits || std::stoul(text) < 1 || std::stoul(text) > kMost) return "is out of range";
    return std::nullopt;
}

Problem check_shard(const std::string& text) {
    if (!text.empty() && !Shard::parse(text)) return "is not a shard";
    return std::nullopt;
}

Problem check_device(const std::string& text) {
    if (text == "auto" || text == "cpu" || text == "cuda") return std::nullopt;
    const std::string index = text.starts_with("cuda:") ? text.substr(5) : "";
    const bool plain = !index.empty() && index.size() <= 3 && std::all_of(index.begin(), index.end(), is_digit);
    if (!plain || (index.size() > 1 && index.front() == '0')) return "is not a device";
    return std::nullopt;
}

// Checks only the form of a name. The tables that CMake generates from the plug-ins have the existing models, sources
// and processors. A '_' is accepted here: a later check suggests the intended name.
Problem check_plugin_name(const std::string& text) {
    const bool plain = std::all_of(
        text.begin(), text.end(), [](char c) { return is_digit(c) || (c >= 'a' && c <= 'z') || c == '-' || c == '_'; });
    if (text.empty() || !plain) return "is not a valid name";
    return std::nullopt;
}

// Several names, separated by commas.
Problem check_plugin_names(const std::string& text) {
    for (const std::string& name : split_at_commas(text)) try {
            if (!ProcessorSpec::of(name))
                if (auto problem = check_plugin_name(name)) return problem;
        } catch (const ConfigError& problem) {
            return "is not a processor: " + std::string(problem.what());
        }
    return std::nullopt;
}

Problem check_groups(const std::string& text) {
    std::set<std::string> names, processors;
    const auto in_line = [&](const std::string& line) { return line == text ? "" : "with '" + line + "' "; };
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
        GroupSettings group;
        if (const auto problem = GroupSettings::parse(line, group)) return in_line(line) + *problem;
        if (auto problem = check_plugin_names(group.processor)) return "with '" + group.processor + "' " + *problem;
        if (!names.insert(group.name).second) return "names the group '" + group.name + "' twice";
        if (!processors.insert(group.processor).second)
            return "names the processor '" + group.processor + "' in two groups";
    }
    if (names.size() > RunNames::kMostGroups)
        return "names more than " + std::to_string(RunNames::kMostGroups) + " groups";
    return std::nullopt;
}

// A name, or a file that names its model. Other files get the same text as for --weights.
Problem check_model(const std::string& text) {
    for (const char* extension : {".pth", ".ckpt", ".bin"})
        if (text.ends_with(extension))
            return "holds weights without a network, as torch.save writes them. ./launch/offramp export NETWORK "
                   "--weights " +
                   text +
                   " makes a model of both, where NETWORK is torchvision:NAME or FILE.py:FUNCTION; a built-in model "
                   "takes them as --weights weights.safetensors, once they are converted: " +
                   command_to_convert(text);
    for (const char* extension : {".safetensors", ".pt2", ".pt"})
        if (text.ends_with(extension)) return std::nullopt;
    if (text.ends_with(".onnx"))
        return "is ONNX, which a run does not read. Run it with onnxruntime in a loop of eight lines that submits its "
               "outputs to offramp.Egress (launch/guide/recipes.md, recipe 8), or export the PyTorch network that it "
               "was "
               "made from: ./launch/offramp export FILE.py:FUNCTION";
    return check_plugin_name(text);
}

Problem check_shapes(const std::string& text) {
    if (!text.empty() && !OutputShapes::parse(text)) return "is not a list of shapes";
    return std::nullopt;
}

Problem check_url(const std::string& text) {
    const bool known = text.starts_with("http://") || text.starts_with("https://");
    if (!text.empty() && !known) return "is not an HTTP URL";
    return std::nullopt;
}

Problem check_user(const std::string& text) {
    if (text.find_first_of(" \t\n:/") != std::string::npos) return "is not a user's name";
    return std::nullopt;
}

// The accepted names need neither quotes nor capitals in SQL.
Problem check_table(const std::string& text) {
    constexpr std::size_t kMost = 48;  // PostgreSQL's 63, minus the suffixes that Offramp appends
    for (std::size_t begin = 0, parts = 1; begin <= text.size(); ++parts) {
        const std::size_t end = std::min(text.find('.', begin), text.size());
        const std::string part = text.substr(begin, end - begin);
        const bool plain =
            std::ranges::all_of(part, [](char c) { return is_digit(c) || (c >= 'a' && c <= 'z') || c == '_'; });
        if (!plain || part.empty() || is_digit(part.front()) || part.size() > kMost || parts > 2)
            return "is not the name of a table";
        begin = end + 1;
    }
    return std::nullopt;
}

Problem check_column_name(const std::string& text) {
    if (!is_utf8(text)) return "is not UTF-8";
    return check_not_empty(text);
}

// Several names, separated by commas; or none.
Problem check_names(const std::string& text) {
    if (text.empty()) return std::nullopt;
    std::set<std::string> names;
    for (const std::string& name : split_at_commas(text)) {
        if (name.empty()) return "has an empty name";
        if (!is_utf8(name)) return "is not UTF-8";
        if (!names.insert(name).second) return "names '" + name + "' twice";
    }
    return std::nullopt;
}

std::vector<std::string> split_at_commas(const std::string& text) {
    std::vector<std::string> names;
    for (std::size_t begin = 0; begin <= text.size();) {
        const std::size_t end = std::min(text.find(',', begin), text.size());
        names.push_back(text.substr(begin, end - begin));
        begin = end + 1;
    }
    return names;
}

Problem check_not_empty(const std::string& text) {
    if (text.empty()) return "is empty";
    return std::nullopt;
}

std::optional<std::string> nearest_word(std::string_view typed, std::span<const std::string> known) {
    std::size_t fewest = std::max<std::size_t>(2, typed.size() / 3) + 1;
    std::optional<std::string> nearest;
    for (const std::string& word : known) {
        const std::size_t edits = edits_between(typed, word);
        if (edits >= fewest) continue;
        fewest = edits;
        nearest = word;
    }
    return nearest;
}

}  // namespace offramp
