#include "common/config/slab_work.hpp"

#include <algorithm>
#include <filesystem>
#include <initializer_list>
#include <string_view>
#include <system_error>

#include "common/base/shown_url.hpp"
#include "common/config/flat_toml.hpp"

namespace offramp {
namespace {

using Settings = std::map<std::string, std::string>;

// What a processor's results follow from besides the slab, for each whose name begins so.
struct Needs {
    std::string_view processor;
    std::initializer_list<std::string_view> flags;
};
const Needs kNeeds[] = {
    {"auto", {"mask-size", "scores", "threshold"}},
    {"mask-png", {"mask-size", "scores", "threshold"}},
    {"mask-rle", {"mask-size", "scores", "threshold"}},
    {"cut-out", {"input", "scores", "threshold"}},
    {"overlay", {"input", "scores", "threshold"}},
    {"records", {"input", "scores", "threshold"}},
    {"records-postgres", {"sink", "sink-table"}},
    {"image", {"image-format", "image-quality", "image-range"}},
    {"embeddings", {"normalize", "vector-dtype", "truncate-dim"}},
    {"embeddings-postgres", {"sink", "sink-table"}},
    {"http", {"http-url", "http-body"}},
    {"write", {"write-path"}},
};
constexpr std::string_view kPaths[] = {"input", "output"};

bool is_path(std::string_view flag) { return std::ranges::find(kPaths, flag) != std::end(kPaths); }

bool has_processor(std::string_view processors, std::string_view begin) {
    for (std::size_t at = 0; at <= processors.size();) {
        const std::size_t end = std::min(processors.find(',', at), processors.size());
        if (processors.substr(at, end - at).starts_with(begin)) return true;
        at = end + 1;
    }
    return false;
}

// The same for every way to write the path.
std::string place_of(const std::string& path) {
    if (path.empty()) return path;
    std::error_code problem;
    std::filesystem::path place = std::filesystem::weakly_canonical(std::filesystem::absolute(path), problem);
    if (problem) place = std::filesystem::absolute(path).lexically_normal();
    std::string text = place.string();
    while (text.size() > 1 && text.back() == '/') text.pop_back();
    return text;
}

// Perhaps with a secret behind the '?'.
std::string shown(const std::string& fact, const Settings& facts) {
    const auto found = facts.find(fact);
    if (found == facts.end() || found->second.empty()) return "nothing";
    return "'" + (fact == "http-url" ? shown_url(found->second) : found->second) + "'";
}

}  // namespace

SlabWork SlabWork::of(const RunConfig& config) { return of_settings(to_toml(config), "the settings"); }

SlabWork SlabWork::of_settings(const std::string& toml, const std::string& name) {
    Settings settings;
    for (const TomlEntry& entry : read_flat_toml(toml, name)) settings[entry.key] = entry.text;
    SlabWork work;
    const auto note = [&](std::string_view flag) {
        const std::string& value = settings[std::string(flag)];
        work.facts[std::string(flag)] = is_path(flag) ? place_of(value) : value;
    };
    note("processor");
    note("output");
    note("durable");   // what is released counts as done
    for (const Needs& needs : kNeeds)
        if (has_processor(settings["processor"], needs.processor))
            for (const std::string_view flag : needs.flags) note(flag);
    // What the producer settles from a model's notes; where those say nothing, and for a consumer that was not told, it is this.
    if (work.facts.contains("scores") && work.facts["scores"] == "auto") work.facts["scores"] = "probability";
    // Masks of the pictures' size are made with the pictures at hand.
    if (work.facts.contains("mask-size") && work.facts["mask-size"] == "image") note("input");
    return work;
}

// FNV-1a: it need not withstand anybody, for whoever may say Hello may say anything.
std::uint64_t SlabWork::hash() const {
    std::uint64_t hash = 0xcbf29ce484222325;
    const auto take = [&hash](std::string_view text) {
        for (const char byte : text) hash = (hash ^ static_cast<unsigned char>(byte)) * 0x100000001b3;
        hash = (hash ^ 0xff) * 0x100000001b3;   // in no UTF-8: where one text ends
    };
    for (const auto& [fact, value] : facts) {
        take(fact);
        take(value);
    }
    return hash;
}

std::string SlabWork::difference_from(const SlabWork& wanted) const {
    Settings all = facts;
    all.insert(wanted.facts.begin(), wanted.facts.end());
    std::string text;
    for (const auto& [fact, value] : all)
        if (const std::string is = shown(fact, facts), was = shown(fact, wanted.facts); is != was)
            text += (text.empty() ? "" : ", ") + ("--" + fact) + " is " + is + " and was to be " + was;
    return text;
}

}  // namespace offramp
