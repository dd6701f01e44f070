#include "consumer/processors/results/previous_run.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string_view>

#include "common/app/program/next_place.hpp"
#include "common/app/settings/sections/result_settings.hpp"
#include "common/app/settings/shard.hpp"
#include "common/base/item_ranges.hpp"
#include "common/base/reserved_prefix.hpp"
#include "common/base/unique_fd.hpp"
#include "common/json/json_text.hpp"
#include "consumer/processors/results/own_run.hpp"

namespace offramp {
namespace {

// As producer/runner/checkpoint/checkpoint_file.cpp writes them.
constexpr std::string_view kEndedLine = "\"ended\":true}";

std::string path_in(const std::string& output) { return output + "/" + std::string(kReservedPrefix) + "checkpoint"; }

std::string text_of(const std::string& path) {
    const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
    struct stat facts {};
    std::string text;
    if (!file || ::fstat(file.get(), &facts) != 0 || !S_ISREG(facts.st_mode)) return text;
    text.resize(static_cast<std::size_t>(facts.st_size));
    std::size_t there = 0;
    while (there < text.size()) {
        const ssize_t got = ::read(file.get(), text.data() + there, text.size() - there);
        if (got <= 0) break;
        there += static_cast<std::size_t>(got);
    }
    text.resize(there);
    return text;
}

bool has_ended(std::string_view text) {
    for (std::size_t at = text.find(kEndedLine); at != std::string_view::npos; at = text.find(kEndedLine, at + 1))
        if (at + kEndedLine.size() < text.size() && text[at + kEndedLine.size()] == '\n') return true;
    return false;
}

std::uint64_t number_in(const std::string& digits) {
    std::uint64_t number = 0;
    std::from_chars(digits.data(), digits.data() + digits.size(), number);
    return number;
}

// The items that the run makes: of a run with --shard those of its part.
std::uint64_t items_of_run(const nlohmann::json& identity) {
    const std::uint64_t items = number_in(identity.value("items", ""));
    const auto shard = Shard::parse(identity.value("--shard", ""));
    if (!shard) return items;
    const Shard::Range part = shard->of(items);
    return part.end - part.begin;
}

// A truncated line is ignored: its items are redone.
std::uint64_t items_done(std::string_view lines) {
    ItemRanges done;
    while (!lines.empty()) {
        const std::size_t end = std::min(lines.find('\n'), lines.size());
        const nlohmann::json line = parse_json_or_discard(lines.substr(0, end));
        lines.remove_prefix(std::min(end + 1, lines.size()));
        if (!line.is_object() || !line.contains("done") || !line["done"].is_array()) continue;
        for (const nlohmann::json& range : line["done"])
            if (range.is_array() && range.size() == 2 && range[0].is_number_unsigned() && range[1].is_number_unsigned())
                done.add({range[0].get<std::uint64_t>(), range[1].get<std::uint64_t>()});
    }
    return done.items();
}

}  // namespace

bool has_checkpoint(const std::string& output) {
    struct stat facts {};
    return ::lstat(path_in(output).c_str(), &facts) == 0;
}

std::optional<PreviousRun> read_previous_run(const std::string& output) {
    const std::string path = path_in(output);
    const std::string text = text_of(path);
    const std::string_view first = std::string_view(text).substr(0, text.find('\n'));
    const nlohmann::json header = parse_json_or_discard(first);
    PreviousRun run;
    std::uint64_t items = 0;
    try {
        run.run_id = header.at("run").get<std::string>();
        ResultSettings config;
        config.processor = header.at("identity").value("--processor", "");
        run.processors = config.processors();
        run.write_path = header.at("identity").value("--write-path", "");
        run.of_own_program = header.at("identity").value("source", "") == kOwnProgram;
        run.next_place = header.value("next", "");
        run.finished = header.value("finished", false);
        items = items_of_run(header.at("identity"));
    } catch (const nlohmann::json::exception&) {
        return std::nullopt;
    }
    if (!run.next_place.empty()) checked_next_place(run.next_place, path);
    const std::string_view others = std::string_view(text).substr(first.size());
    run.ended = has_ended(others);
    run.finished = run.finished || run.ended;
    run.left = items - std::min(items, items_done(others));
    return run;
}

}  // namespace offramp
