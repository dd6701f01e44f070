#include "consumer/sinks/segment_merge.hpp"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <span>
#include <system_error>
#include <vector>

#include "common/base/error.hpp"
#include "consumer/sinks/atomic_file.hpp"
#include "consumer/sinks/cannot_write.hpp"
#include "consumer/sinks/segment_file.hpp"

namespace offramp {
namespace {

namespace fs = std::filesystem;

struct Segment {
    fs::path path;
    fs::file_time_type written;
    std::string text;
};

// The lines of one item in one segment.
struct Entry {
    std::uint64_t item = 0;
    std::size_t rank = 0;  // of its segment: the latest is 0
    std::string_view lines;
};

[[noreturn]] void fail_damaged(const fs::path& path, const std::string& what) {
    throw ProtocolError("segment " + path.string() + " is damaged: " + what,
                        "Remove the file and deliver its batch again, or start with an empty output folder");
}

std::string read_text(const fs::path& path) {
    std::ifstream file(path, std::ios::binary);
    std::string text{std::istreambuf_iterator<char>(file), {}};
    if (!file.is_open() || file.bad())
        throw Error(ExitCode::System, "cannot read the segment " + path.string(), "Check its permissions");
    return text;
}

void require_whole(const Segment& segment) {
    // The name ends in the hash of the bytes; batch and row do not enter into it.
    const std::string wanted = segment_file_name(0, 0, segment.text);
    const std::string found = segment.path.filename().string();
    const std::string_view hash = std::string_view(wanted).substr(wanted.rfind('-'));
    if (!found.ends_with(hash))
        fail_damaged(segment.path, "its bytes are not those that its name was made of");
}

std::vector<Segment> read_segments(const fs::path& folder) {
    std::vector<Segment> segments;
    std::error_code failure;
    fs::directory_iterator entry(folder, failure);
    if (failure == std::errc::no_such_file_or_directory) return segments;
    for (; !failure && entry != fs::directory_iterator(); entry.increment(failure)) {
        if (!is_segment_name(entry->path().filename().string())) continue;
        Segment segment{
            .path = entry->path(), .written = entry->last_write_time(), .text = read_text(entry->path())};
        require_whole(segment);
        segments.push_back(std::move(segment));
    }
    if (failure) throw cannot_write("reading the segments in " + folder.string(), failure.value());
    std::sort(segments.begin(), segments.end(), [](const Segment& a, const Segment& b) {
        return a.written != b.written ? a.written > b.written : a.path < b.path;
    });
    return segments;
}

SegmentRecord first_line(std::string_view text) {
    const std::size_t newline = text.find('\n');
    if (newline == std::string_view::npos) return {.damage = "its last line has no end"};
    std::string_view line = text.substr(0, newline + 1);
    SegmentRecord record{.bytes = line.size()};
    const bool json = line.starts_with(kJsonLine);
    if (json) line.remove_prefix(kJsonLine.size());
    const auto [end, failure] = std::from_chars(line.data(), line.data() + line.size(), record.item);
    if (failure != std::errc{} || end == line.data() + line.size() || (*end != (json ? ',' : '\t') && *end != '\n'))
        record.damage = "a line does not begin with an item's number";
    return record;
}

// The file that an earlier merge made, as the oldest segment of all. Nothing when there is none.
void read_former(const std::string& output_file, const SegmentForm& form, std::vector<Segment>& segments) {
    if (!fs::exists(output_file)) return;
    segments.push_back({.path = output_file, .written = {}, .text = form.read_former(output_file)});
}

void add_entries(const Segment& segment, std::size_t rank, const SegmentForm& form, std::vector<Entry>& entries) {
    const std::string_view text = segment.text;
    bool first_of_segment = true;
    for (std::size_t begin = 0; begin < text.size();) {
        const auto [item, bytes, damage] = form.first(text.substr(begin));
        if (damage != nullptr) fail_damaged(segment.path, damage);
        const std::string_view line = text.substr(begin, bytes);
        if (!first_of_segment && entries.back().item == item) {
            Entry& entry = entries.back();
            entry.lines = {entry.lines.data(), entry.lines.size() + line.size()};
        } else {
            entries.push_back({item, rank, line});
        }
        first_of_segment = false;
        begin += bytes;
    }
}

// Keeps of each item the entry of the latest segment, counting the others. `former_rank`: that of a former output.
std::string join_entries(std::vector<Entry>& entries, std::size_t former_rank, MergeOutcome& outcome) {
    std::stable_sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
        return a.item != b.item ? a.item < b.item : a.rank < b.rank;
    });
    std::string merged;
    const Entry* kept = nullptr;
    for (const Entry& entry : entries) {
        if (kept != nullptr && kept->item == entry.item) {
            ++(kept->lines == entry.lines ? outcome.repeats : outcome.conflicts);
            continue;
        }
        kept = &entry;
        ++outcome.items;
        if (entry.rank == former_rank) ++outcome.kept;
        merged += entry.lines;
    }
    return merged;
}

void remove_tree(const fs::path& folder) {
    std::error_code failure;
    fs::remove_all(folder, failure);
    if (failure) throw cannot_write("removing merged segments in " + folder.string(), failure.value());
}

}  // namespace

const SegmentForm& lines_form() {
    static constexpr SegmentForm kLines{
        .first = &first_line,
        .read_former = [](const std::string& path) { return read_text(path); },
        .write = [](const std::string& path, std::string_view lines, Durability durability) { write_atomically(path, std::as_bytes(std::span(lines)), durability); }};
    return kLines;
}

MergeOutcome merge_segments(const std::string& folder, std::string_view name,
                            const std::string& output_file, FormerOutput former, Durability durability, const SegmentForm& form) {
    const fs::path pending = segment_folder(folder, name);
    // What lies here was merged, by a call that was then killed.
    const fs::path merged = segment_folder(folder, std::string(name) + ".merged");
    remove_tree(merged);

    std::vector<Segment> segments = read_segments(pending);
    MergeOutcome outcome{.segments = segments.size()};
    if (former == FormerOutput::KeptIn && outcome.segments > 0) read_former(output_file, form, segments);
    std::vector<Entry> entries;
    for (std::size_t rank = 0; rank < segments.size(); ++rank) add_entries(segments[rank], rank, form, entries);
    const std::string joined = join_entries(entries, outcome.segments, outcome);
    if (!segments.empty()) form.write(output_file, joined, durability);

    if (std::rename(pending.c_str(), merged.c_str()) != 0 && errno != ENOENT)
        throw cannot_write("setting aside merged segments in " + pending.string(), errno);
    remove_tree(merged);
    std::error_code other_series_remain;
    fs::remove(pending.parent_path(), other_series_remain);
    return outcome;
}

void remove_series(const std::string& folder, std::string_view name, const std::string& output_file) {
    remove_tree(segment_folder(folder, name));
    remove_tree(segment_folder(folder, std::string(name) + ".merged"));
    std::error_code failure;
    fs::remove(fs::path(segment_folder(folder, name)).parent_path(), failure);   // unless other series remain
    fs::remove(output_file, failure);
    if (failure) throw cannot_write("removing " + output_file, failure.value());
}

}  // namespace offramp
