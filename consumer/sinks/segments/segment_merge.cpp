#include "consumer/sinks/segments/segment_merge.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <list>
#include <optional>
#include <random>
#include <string_view>
#include <system_error>
#include <tuple>
#include <utility>
#include <vector>

#include "common/base/error.hpp"
#include "common/base/failpoint.hpp"
#include "common/base/held_folder.hpp"
#include "common/base/log.hpp"
#include "consumer/sinks/files/atomic_file.hpp"
#include "consumer/sinks/segments/segment_file.hpp"

namespace offramp {
namespace {

namespace fs = std::filesystem;

// A file in the segments' folder, removed with the merged segments.
constexpr const char* kPreviousRecords = "former";
// The number of files open at a time: consecutive items come from the segments of one or two batches.
constexpr std::size_t kMostOpen = 16;

struct Segment {
    std::string path;
    fs::file_time_type written;
};

// The records of one item in one segment.
struct Entry {
    std::uint64_t item = 0;
    std::uint64_t begin = 0, bytes = 0;  // in the segment
    std::size_t rank = 0;                // age of the segment: the latest is 0
};

[[noreturn]] void fail_damaged(const std::string& path, const std::string& what) {
    throw ProtocolError("segment " + path + " is damaged: " + what,
                        "Remove the file and deliver its batch again, or start with an empty output folder");
}

void require_whole(const std::string& path, std::string_view text) {
    // The name ends in the hash of the bytes; batch and row do not affect it.
    const std::string wanted = segment_file_name(0, 0, text);
    const std::string_view hash = std::string_view(wanted).substr(wanted.rfind('-'));
    if (!path.ends_with(hash)) fail_damaged(path, "its content does not match the hash in its name");
}

// Lists the segments, the latest first.
std::vector<Segment> list_segments(const fs::path& folder) {
    std::vector<Segment> segments;
    std::error_code failure;
    fs::directory_iterator entry(folder, failure);
    if (failure == std::errc::no_such_file_or_directory) return segments;
    for (; !failure && entry != fs::directory_iterator(); entry.increment(failure))
        if (is_segment_name(entry->path().filename().string()))
            segments.push_back({.path = entry->path(), .written = entry->last_write_time()});
    if (failure) throw write_error("reading the segments in " + folder.string(), failure.value());
    std::sort(segments.begin(), segments.end(), [](const Segment& a, const Segment& b) {
        return a.written != b.written ? a.written > b.written : a.path < b.path;
    });
    return segments;
}

SegmentRecord first_line(std::string_view text) {
    const std::size_t newline = text.find('\n');
    if (newline == std::string_view::npos) return {.damage = "its last line is incomplete"};
    std::string_view line = text.substr(0, newline + 1);
    SegmentRecord record{.bytes = line.size()};
    const bool json = line.starts_with(kJsonLine);
    if (json) line.remove_prefix(kJsonLine.size());
    const auto [end, failure] = std::from_chars(line.data(), line.data() + line.size(), record.item);
    if (failure != std::errc{} || end == line.data() + line.size() || (*end != (json ? ',' : '\t') && *end != '\n'))
        record.damage = "a line does not begin with an item's number";
    return record;
}

void add_entries(RecordFile& file, const std::string& path, std::size_t rank, const SegmentForm& form,
                 std::vector<Entry>& entries) {
    bool first_of_segment = true;
    for (std::uint64_t begin = 0; begin < file.size();) {
        const auto [item, bytes, damage] = record_at(file, begin, form);
        if (damage != nullptr) fail_damaged(path, damage);
        if (!first_of_segment && entries.back().item == item)
            entries.back().bytes += bytes;
        else
            entries.push_back({.item = item, .begin = begin, .bytes = bytes, .rank = rank});
        first_of_segment = false;
        begin += bytes;
    }
}

// `previous_rank`: the rank of a previous output, which is not a segment.
std::vector<Entry> entries_of(const std::vector<Segment>& segments, std::size_t previous_rank,
                              const SegmentForm& form) {
    std::vector<Entry> entries;
    for (std::size_t rank = 0; rank < segments.size(); ++rank) {
        const std::string& path = segments[rank].path;
        RecordFile file(path);
        if (rank != previous_rank) require_whole(path, file.from(0, file.size()));
        add_entries(file, path, rank, form, entries);
    }
    std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
        return std::tie(a.item, a.rank, a.begin) < std::tie(b.item, b.rank, b.begin);
    });
    return entries;
}

// Takes each item's entry of the latest segment, in order; reads it, and counts the others.
class Merging {
  public:
    // Borrows all arguments.
    Merging(const std::vector<Segment>& segments, const std::vector<Entry>& entries, std::size_t previous_rank,
            const SegmentForm& form, MergeOutcome& outcome)
        : segments_(segments), entries_(entries), previous_rank_(previous_rank), form_(form), outcome_(outcome) {}

    std::string_view next() {
        const Entry* kept = at_ == 0 ? nullptr : &entries_[at_ - 1];
        for (; at_ < entries_.size(); ++at_) {
            const Entry& entry = entries_[at_];
            const std::string_view records = read(entry);
            if (kept == nullptr || kept->item != entry.item) {
                ++at_;
                ++outcome_.items;
                if (entry.rank == previous_rank_) ++outcome_.kept;
                kept_.assign(records);
                return kept_;
            }
            ++(records == kept_ ? outcome_.repeats : outcome_.conflicts);
        }
        return {};
    }

  private:
    struct Open {
        std::size_t rank;
        RecordFile file;
    };

    std::string_view read(const Entry& entry) {
        auto found =
            std::find_if(open_.begin(), open_.end(), [&](const Open& open) { return open.rank == entry.rank; });
        if (found == open_.end()) {
            if (open_.size() == kMostOpen) open_.pop_back();
            open_.push_front({entry.rank, RecordFile(segments_[entry.rank].path)});
        } else {
            open_.splice(open_.begin(), open_, found);
        }
        const std::string_view records = open_.front().file.from(entry.begin, entry.bytes).substr(0, entry.bytes);
        require_unchanged(entry, records);
        return records;
    }

    // The segments were intact when they were listed.
    void require_unchanged(const Entry& entry, std::string_view records) const {
        while (!records.empty()) {
            const SegmentRecord record = form_.first(records);
            if (record.damage != nullptr || record.item != entry.item)
                fail_damaged(segments_[entry.rank].path, "it changed while it was merged");
            records.remove_prefix(record.bytes);
        }
    }

    const std::vector<Segment>& segments_;
    const std::vector<Entry>& entries_;
    std::size_t previous_rank_;
    const SegmentForm& form_;
    MergeOutcome& outcome_;
    std::list<Open> open_;  // the most recently used first
    std::size_t at_ = 0;
    std::string kept_;
};

void write_lines(const std::string& path, const NextRecords& next, Durability durability) {
    RecordWriter file(path, durability);
    for (std::string_view lines = next(); !lines.empty(); lines = next()) file.add(lines);
    file.commit();
}

// A folder that has gained files since then stays.
void remove_folders_if_empty(const fs::path& pending) {
    std::error_code failure;
    fs::remove(pending, failure);
    fs::remove(pending.parent_path(), failure);
}

// After a power cut, segments that come back would look as if they had not been merged.
void flush_removals(fs::path pending, Durability durability) {
    if (durability != Durability::PowerCut) return;
    std::error_code failure;
    while (!pending.empty() && !fs::exists(pending, failure)) pending = pending.parent_path();
    flush_folder(pending.string());
}

void remove_merged(const fs::path& pending, const std::vector<Segment>& segments, Durability durability) {
    for (const Segment& segment : segments) {
        std::error_code failure;
        fs::remove(segment.path, failure);
        if (failure) throw write_error("removing the merged segment " + segment.path, failure.value());
    }
    remove_folders_if_empty(pending);
    flush_removals(pending, durability);
}

namespace fs = std::filesystem;

// Reads the records of one part after another, item by item.
class PartsInTurn {
  public:
    // Borrows all arguments. `parts`: those that have the file.
    PartsInTurn(std::span<const ShardPart> parts, std::string file, const SegmentForm& form)
        : parts_(parts), file_(std::move(file)), form_(form) {}
    PartsInTurn(const PartsInTurn&) = delete;
    PartsInTurn& operator=(const PartsInTurn&) = delete;
    ~PartsInTurn() { close(); }

    std::string_view next() {
        while (begin_item()) {
            const std::uint64_t item = take_item();
            const ItemRange& share = parts_[part_].items;
            if (item < share.begin || item >= share.end) continue;
            if (last_ && item <= *last_)
                fail("item " + std::to_string(item) + " comes after " + std::to_string(*last_));
            last_ = item;
            return records_;
        }
        return {};
    }

  private:
    std::string path() const { return parts_[part_].folder + "/" + file_; }
    // Returns false at the end.
    bool begin_item() {
        for (; part_ < parts_.size(); close(), ++part_) {
            if (!open_) open();
            if (at_ < open_->size()) return true;
        }
        return false;
    }

    void open() {
        scratch_ = parts_[part_].scratch(file_);
        open_.emplace(form_.records_of(path(), scratch_));
    }

    // Returns the item's number.
    std::uint64_t take_item() {
        records_.clear();
        std::optional<std::uint64_t> item;
        while (at_ < open_->size()) {
            const SegmentRecord record = record_at(*open_, at_, form_);
            if (record.damage != nullptr) fail(record.damage);
            if (item && record.item != *item) break;
            item = record.item;
            records_ += open_->from(at_, record.bytes).substr(0, record.bytes);
            at_ += record.bytes;
        }
        return *item;
    }

    void close() {
        open_.reset();
        at_ = 0;
        std::error_code ignored;
        if (!scratch_.empty()) fs::remove(scratch_, ignored);
        scratch_.clear();
    }

    [[noreturn]] void fail(const std::string& what) const {
        throw ProtocolError(path() + " is damaged: " + what, parts_[part_].to_do_again);
    }

    std::span<const ShardPart> parts_;
    std::string file_;
    const SegmentForm& form_;
    std::size_t part_ = 0;
    std::optional<RecordFile> open_;
    std::uint64_t at_ = 0;
    std::optional<std::uint64_t> last_;
    std::string records_, scratch_;
};

}  // namespace

const SegmentForm& lines_form() {
    static constexpr SegmentForm kLines{
        .first = &first_line,
        .records_of = [](const std::string& merged, const std::string&) { return merged; },
        .write = &write_lines};
    return kLines;
}

// A record that extends beyond the window looks damaged, so more is read.
SegmentRecord record_at(RecordFile& file, std::uint64_t begin, const SegmentForm& form) {
    std::string_view text = file.from(begin, 1);
    SegmentRecord record = form.first(text);
    while (record.damage != nullptr && begin + text.size() < file.size()) {
        text = file.from(begin, 2 * text.size());
        record = form.first(text);
    }
    return record;
}

MergeOutcome merge_segments(const std::string& folder, std::string_view name, const std::string& output_file,
                            Durability durability, const SegmentForm& form) {
    const fs::path pending = segment_folder(folder, name);
    std::vector<Segment> segments = list_segments(pending);
    MergeOutcome outcome{.segments = segments.size()};
    if (segments.empty()) {
        remove_folders_if_empty(pending);
        std::error_code unknown;
        // An earlier merge may have died before it flushed the removals.
        if (fs::exists(output_file, unknown)) flush_removals(pending, durability);
        return outcome;
    }
    const std::vector<Segment> merged = segments;
    // The result of an earlier merge counts as the oldest segment.
    const std::string previous = (pending / kPreviousRecords).string();
    if (fs::exists(output_file)) segments.push_back({.path = form.records_of(output_file, previous), .written = {}});
    const std::vector<Entry> entries = entries_of(segments, outcome.segments, form);
    Merging merging(segments, entries, outcome.segments, form, outcome);
    failpoint("merge.write");
    form.write(
        output_file, [&merging] { return merging.next(); }, durability);
    std::error_code failure;
    fs::remove(previous, failure);
    remove_merged(pending, merged, durability);
    return outcome;
}

bool has_segments(const std::string& folder, std::string_view name) {
    return !list_segments(segment_folder(folder, name)).empty();
}

bool ShardPart::has(const std::string& file) const {
    if (std::ranges::find(files, file) == files.end()) return false;
    const std::string path = folder + "/" + file;
    std::error_code failure;
    if (fs::exists(path, failure)) return true;
    throw Error(
        ErrorKind::BadInput,
        path + ", listed in the shard's record, " + (failure ? "cannot be accessed: " + failure.message() : "is gone"),
        "Check that the shared folder is mounted on this host. If it is: " + to_do_again);
}

std::string ShardPart::scratch(const std::string& file) const {
    return fmt::format("{}/{}joined-{}-{}-{:08x}{:08x}", folder, kReservedPrefix, file, ::getpid(),
                       std::random_device()(), std::random_device()());
}

void join_parts(std::span<const ShardPart> parts, const std::string& file, const std::string& output_file,
                Durability durability, const SegmentForm& form) {
    std::vector<ShardPart> there;
    for (const ShardPart& part : parts)
        if (part.has(file)) there.push_back(part);
    if (there.empty()) return;
    PartsInTurn records(there, file, form);
    failpoint("parts.join");
    form.write(
        output_file, [&records] { return records.next(); }, durability);
}

}  // namespace offramp
