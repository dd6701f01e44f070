#include "producer/runner/checkpoint/checkpoint_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "common/app/settings/parsed_values.hpp"
#include "common/app/settings/processor_results.hpp"
#include "common/app/settings/run_config.hpp"
#include "common/app/settings/setting_group.hpp"
#include "common/base/error.hpp"
#include "common/base/log.hpp"
#include "common/base/unique_fd.hpp"
#include "common/json/json_text.hpp"
#include "producer/runner/models/model_choice.hpp"
#include "producer/runner/models/model_metadata.hpp"

namespace offramp {
namespace {

using nlohmann::json;

constexpr std::string_view kBeforeHash = "{\"xxh3\":\"";
constexpr std::string_view kAfterHash = "\",";
constexpr std::size_t kDigits = 16;
constexpr std::size_t kFront = kBeforeHash.size() + kDigits + kAfterHash.size();

using nlohmann::json;

constexpr std::uint64_t kVersion = 2;
constexpr std::size_t kRangesALine = 1000;
constexpr std::size_t kShapesALine = 4096;

// Returns false, and adds nothing, unless every range is within the source.
bool add_ranges(const json& ranges, std::uint64_t items, ItemRanges& done) {
    if (!ranges.is_array()) return false;
    std::vector<ItemRange> found;
    for (const json& range : ranges) {
        if (!range.is_array() || range.size() != 2 || !range[0].is_number_unsigned() || !range[1].is_number_unsigned())
            return false;
        found.push_back({range[0].get<std::uint64_t>(), range[1].get<std::uint64_t>()});
        if (found.back().begin >= found.back().end || found.back().end > items) return false;
    }
    for (const ItemRange& range : found) done.add(range);
    return true;
}

bool read_header(std::string_view line, Checkpoint& checkpoint) {
    const json header = opened_line(line);
    if (!header.is_object() || !header.contains("checkpoint") || header["checkpoint"] != kVersion) return false;
    try {
        checkpoint.run_id = header.at("run").get<std::string>();
        checkpoint.pid = header.at("pid").get<std::uint64_t>();
        checkpoint.before = header.at("before").get<std::uint64_t>();
        checkpoint.named = header.at("named").get<bool>();
        checkpoint.identity.facts = header.at("identity").get<std::map<std::string, std::string>>();
    } catch (const json::exception&) {
        return false;
    }
    return true;
}

std::string hash_of_file(const std::string& path) {
    const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!file) throw SystemError("opening " + path, errno, "Give a file that this user may read", ErrorKind::NoInput);
    const std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)> state(XXH3_createState(), &XXH3_freeState);
    XXH3_64bits_reset(state.get());
    std::vector<char> block(std::size_t{1} << 20);
    for (;;) {
        const ssize_t got = ::read(file.get(), block.data(), block.size());
        if (got < 0 && errno == EINTR) continue;
        if (got < 0)
            throw SystemError("reading " + path, errno, "Check the file system that holds it", ErrorKind::NoInput);
        if (got == 0) return fmt::format("{:016x}", XXH3_64bits_digest(state.get()));
        XXH3_64bits_update(state.get(), block.data(), static_cast<std::size_t>(got));
    }
}

constexpr const char* kMakeReadable = "Make it readable for this user";
constexpr const char* kNotRegular = "It is not a regular file: remove it";

SystemError read_error(const std::string& path, const char* what, int problem, const char* remedy = kMakeReadable) {
    return SystemError(std::string("reading ") + what + " " + path, problem, remedy);
}

std::string shown(const std::string& fact, const std::map<std::string, std::string>& facts) {
    const auto found = facts.find(fact);
    return found == facts.end() || found->second.empty() ? "none" : found->second;
}

}  // namespace

std::string sealed_line(std::string_view body) {
    return fmt::format("{}{:016x}{}{}\n", kBeforeHash, XXH3_64bits(body.data(), body.size()), kAfterHash, body);
}

json opened_line(std::string_view line) {
    const json nothing = json::value_t::discarded;
    if (seal_of(line).empty()) return nothing;
    const std::string_view body = line.substr(kFront);
    if (line != std::string_view(sealed_line(body)).substr(0, line.size())) return nothing;
    json object = parse_json_or_discard("{" + std::string(body));
    return object.is_object() ? object : nothing;
}

std::string_view seal_of(std::string_view line) {
    return line.size() > kFront && line.starts_with(kBeforeHash) ? line.substr(kBeforeHash.size(), kDigits)
                                                                 : std::string_view();
}

std::string shapes_lines(std::span<const std::vector<std::int64_t>> shapes) {
    std::string text;
    for (std::size_t from = 0; from < shapes.size(); from += kShapesALine) {
        const auto now = shapes.subspan(from, std::min(kShapesALine, shapes.size() - from));
        text += sealed_line(fmt::format("\"from\":{},\"shapes\":{}}}", from, json_text(json(now))));
    }
    return text;
}

bool add_shapes_line(const json& line, std::vector<std::vector<std::int64_t>>& shapes) {
    if (!line.is_object() || line.value("from", json()) != shapes.size() || !line.contains("shapes")) return false;
    try {
        std::ranges::copy(line["shapes"].get<std::vector<std::vector<std::int64_t>>>(), std::back_inserter(shapes));
        return true;
    } catch (const json::exception&) {
        return false;
    }
}

std::string form_line(const SampleForm& form) {
    const json kept = {{"shape", form.shape}, {"picture", form.is_picture}, {"pixels", form.has_pixels}};
    return sealed_line("\"form\":" + json_text(kept) + "}");
}

std::optional<SampleForm> form_in(const json& line) {
    if (!line.is_object() || !line.contains("form")) return std::nullopt;
    try {
        const json& kept = line["form"];
        return SampleForm{.shape = kept.at("shape").get<std::vector<std::int64_t>>(),
                          .is_picture = kept.at("picture").get<bool>(),
                          .has_pixels = kept.at("pixels").get<bool>()};
    } catch (const json::exception&) {
        return std::nullopt;
    }
}

std::string Checkpoint::header_line() const {
    json header = {{"run", run_id}, {"pid", pid}, {"before", before}, {"named", named}, {"identity", identity.facts}};
    header["checkpoint"] = kVersion;
    return sealed_line(std::string_view(json_text(header)).substr(1));
}

std::uint64_t Checkpoint::items() const {
    std::uint64_t items = 0;
    const auto found = identity.facts.find("items");
    if (found != identity.facts.end())
        std::from_chars(found->second.data(), found->second.data() + found->second.size(), items);
    return items;
}

ItemRange Checkpoint::share() const {
    const auto given = identity.facts.find("--shard");
    const bool is_of_the_whole = identity.facts.contains(CheckpointIdentity::kNumbersOfItems);
    const auto shard =
        is_of_the_whole && given != identity.facts.end() ? Shard::parse(given->second) : std::optional<Shard>();
    if (!shard) return {0, items()};
    const Shard::Range range = shard->of(items());
    return {range.begin, range.end};
}

std::string done_lines(std::span<const ItemRange> ranges) {
    std::string text;
    while (!ranges.empty()) {
        const auto now = ranges.first(std::min(ranges.size(), kRangesALine));
        std::string body = "\"done\":[";
        for (const ItemRange& range : now)
            body += fmt::format("{}[{},{}]", body.back() == '[' ? "" : ",", range.begin, range.end);
        text += sealed_line(body + "]}");
        ranges = ranges.subspan(now.size());
    }
    return text;
}

std::string Checkpoint::whole_text() const {
    return header_line() + shapes_lines(shapes) + (form ? form_line(*form) : "") + done_lines(done.list()) +
           (ended ? ended_line() : "");
}

std::string ended_line() { return sealed_line("\"ended\":true}"); }

Checkpoint parse_checkpoint(std::string_view text, const std::string& path) {
    Checkpoint checkpoint;
    const auto next_line = [&text] {
        const std::size_t end = text.find('\n');
        const std::string_view line = text.substr(0, end);
        text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
        return line;
    };
    if (!read_header(next_line(), checkpoint))
        throw Error(ErrorKind::BadInput, path + " is not a checkpoint, or has another version",
                    "Remove it and leave --resume out: every item is then processed again");
    const std::uint64_t items = checkpoint.items();
    while (!text.empty()) {
        const json line = opened_line(next_line());
        const bool has_content =
            line.is_object() && (line.contains("done")     ? add_ranges(line["done"], items, checkpoint.done)
                                 : line.contains("shapes") ? add_shapes_line(line, checkpoint.shapes)
                                 : line.contains("form")   ? (checkpoint.form = form_in(line)).has_value()
                                 : line.contains("ended")  ? (checkpoint.ended = line["ended"] == true)
                                                           : false);
        if (!has_content) ++checkpoint.ignored_lines;
    }
    if (checkpoint.shapes.size() != items) checkpoint.shapes.clear();
    return checkpoint;
}

UniqueFd open_own_file(const std::string& path, const char* what) {
    UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
    if (!file && errno == ENOENT) return file;
    struct stat found {};
    if (!file || ::fstat(file.get(), &found) != 0)
        throw read_error(path, what, errno, errno == ELOOP ? kNotRegular : kMakeReadable);
    if (!S_ISREG(found.st_mode)) throw read_error(path, what, EINVAL, kNotRegular);
    return file;
}

std::optional<std::string> text_of_own_file(const std::string& path, const char* what) {
    const UniqueFd file = open_own_file(path, what);
    if (!file) return std::nullopt;
    std::string text;
    std::array<char, 65536> block{};
    for (;;) {
        const ssize_t got = ::read(file.get(), block.data(), block.size());
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) throw read_error(path, what, errno);
        if (got == 0) return text;
        text.append(block.data(), static_cast<std::size_t>(got));
    }
}

std::optional<Checkpoint> read_checkpoint(const std::string& path) {
    const auto text = text_of_own_file(path, "the checkpoint");
    if (!text) return std::nullopt;
    return parse_checkpoint(*text, path);
}

CheckpointIdentity CheckpointIdentity::of(const RunConfig& config, std::uint64_t items, const std::string& source) {
    CheckpointIdentity identity;
    for (const Setting& setting : make_settings())
        if (setting.effect.makes_results(config)) identity.facts["--" + setting.flag] = setting.compared(config);
    // The sink does not count: its address may change and may contain a password. Consumers identify their tables by
    // the marks.
    for (const std::string& table : tables_of(config)) {
        std::string& tables = identity.facts["--sink-table"];
        tables += (tables.empty() ? "" : ", ") + table;
    }
    identity.facts[kItems] = std::to_string(items);
    identity.facts[kNamesOfItems] = source;
    if (!config.shard.empty()) identity.facts[kNumbersOfItems] = "of the whole input";
    identity.facts["weights"] = config.weights.empty() ? "" : hash_of_file(config.weights);
    if (is_model_file(config.model)) {
        identity.facts["model file"] = hash_of_file(config.model);
        const std::string metadata = model_metadata_path(config.model);
        identity.facts["model's notes"] = ::access(metadata.c_str(), F_OK) == 0 ? hash_of_file(metadata) : "";
    }
    return identity;
}

std::string CheckpointIdentity::difference_from(const CheckpointIdentity& previous) const {
    std::map<std::string, std::string> all = facts;
    all.insert(previous.facts.begin(), previous.facts.end());
    std::string text;
    for (const auto& [fact, value] : all) {
        const std::string was = shown(fact, previous.facts);
        const std::string is = shown(fact, facts);
        if (was != is) text += (text.empty() ? "" : ", ") + fact + " was " + was + " and is " + is;
    }
    return text;
}

}  // namespace offramp
