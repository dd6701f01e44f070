#include "consumer/sinks/segments/record_file.hpp"

#include <algorithm>
#include <span>
#include <utility>

#include "common/base/error.hpp"

namespace offramp {
namespace {

// Size of a window, and of a piece.
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
    window_ = std::string();  // until another is filled
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
