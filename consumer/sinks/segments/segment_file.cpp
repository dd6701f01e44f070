#include "consumer/sinks/segments/segment_file.hpp"

#include <xxhash.h>

#include <algorithm>
#include <cctype>
#include <span>
#include <utility>

#include "common/base/error.hpp"
#include "common/base/log.hpp"
#include "consumer/sinks/files/atomic_file.hpp"
#include "consumer/sinks/files/output_name.hpp"

namespace offramp {

std::string segment_folder(const std::string& folder, std::string_view name) {
    return folder + "/" + std::string(kReservedPrefix) + "segments/" + std::string(name);
}

std::string segment_file_name(std::uint64_t batch, std::uint32_t row, std::string_view text) {
    return fmt::format("{:012}-{:06}-{:016x}.tsv", batch, row, XXH3_64bits(text.data(), text.size()));
}

bool is_segment_name(std::string_view file_name) {
    const std::size_t first = file_name.find('-');
    return first != std::string_view::npos && first > 0 &&
           std::isdigit(static_cast<unsigned char>(file_name[0])) != 0 && file_name.ends_with(".tsv") &&
           std::count(file_name.begin(), file_name.end(), '-') == 2;
}

void SegmentFile::begin(std::uint64_t batch, std::uint32_t row) {
    text_.clear();
    batch_ = batch;
    row_ = row;
}

void SegmentFile::add_line(std::uint64_t item, std::initializer_list<std::string_view> fields) {
    text_ += std::to_string(item);
    for (const std::string_view field : fields) {
        text_ += '\t';
        text_ += escaped(field);
    }
    text_ += '\n';
}

void SegmentFile::add_json(std::uint64_t item, std::string_view members) {
    text_ += kJsonLine;
    text_ += std::to_string(item);
    text_ += ',';
    text_ += members;
    text_ += "}\n";
}

void SegmentFile::commit() {
    if (text_.empty()) return;
    write_atomically(folder_ + "/" + segment_file_name(batch_, row_, text_), std::as_bytes(std::span(text_)),
                     durability_);
    text_.clear();
}

namespace {

// Size of a window, and of a piece to write.
constexpr std::uint64_t kWindowBytes = 1 << 20;

[[noreturn]] void fail(const std::string& path, const std::string& why) {
    throw Error(ErrorKind::System, "cannot read " + path + ": " + why, "Check its permissions and its disk");
}

RegularFile open_file(const std::string& path) {
    try {
        return RegularFile(path);
    } catch (const Error& problem) {
        fail(path, problem.what());
    }
}

}  // namespace

RecordFile::RecordFile(std::string path) : path_(std::move(path)), file_(open_file(path_)) {}

std::string_view RecordFile::from(std::uint64_t at, std::uint64_t least) {
    expect(at <= size(), "the range is in the file");
    least = std::min(least, size() - at);
    if (at < window_at_ || at + least > window_at_ + window_.size()) {
        read_window(at, std::min(std::max(least, kWindowBytes), size() - at));
    }
    return std::string_view(window_).substr(at - window_at_);
}

void RecordFile::read_window(std::uint64_t at, std::uint64_t bytes) {
    window_ = std::string();  // until another window is read
    std::string window(bytes, '\0');
    std::size_t got = 0;
    try {
        got = file_.read_at(at, std::as_writable_bytes(std::span(window)));
    } catch (const Error& problem) {
        fail(path_, problem.what());
    }
    if (got < bytes) fail(path_, "it shrank from " + std::to_string(size()) + " bytes");
    window_ = std::move(window);
    window_at_ = at;
}

void RecordWriter::add(std::string_view records) {
    piece_ += records;
    if (piece_.size() >= kWindowBytes) write_piece();
}

void RecordWriter::write_piece() {
    file_.write(std::as_bytes(std::span(piece_)));
    piece_.clear();
}

void RecordWriter::commit() {
    write_piece();
    file_.commit();
}

}  // namespace offramp
