#include "producer/runner/sources/npy_file.hpp"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "common/app/images/item_keys.hpp"
#include "common/app/images/unreadable_item.hpp"

namespace offramp {
namespace {

constexpr std::uint64_t kLookedAtRows = 64;  // the first bytes of these rows distinguish arrays of the same shape

RegularFile opened(const std::string& path) {
    try {
        return RegularFile(path);
    } catch (const Error& problem) {
        throw ConfigError("--input '" + printable(path) + "': " + problem.what(),
                          "It must be a .npy file that this user may read", problem.kind());
    }
}

}  // namespace

std::string shape_text(std::span<const std::int64_t> shape) {
    std::string text;
    for (const std::int64_t side : shape) text += (text.empty() ? "" : ", ") + std::to_string(side);
    return "[" + text + "]";
}

NpyFile::NpyFile(std::string path, Items items) : path_(std::move(path)), file_(opened(path_)), items_(items) {
    std::vector<std::byte> front(std::min<std::uint64_t>(file_.size(), kMostNpyHeaderBytes));
    try {
        front.resize(read_some(0, front));
        header_ = read_npy_header(front);
    } catch (const UnreadableItem& problem) {
        refuse(problem.what(), "Check the file system that holds it");
    } catch (const ConfigError& problem) {
        refuse(problem.what(), "");
    }
    if (header_.fortran_order && header_.shape.size() > 1)
        refuse("it is stored in Fortran order", "Save numpy.ascontiguousarray(array)");
    if (items == Items::Whole) header_.shape.insert(header_.shape.begin(), 1);
    if (header_.shape.empty() || header_.shape.front() == 0)
        refuse("an array of shape " + shape_text(header_.shape) + " has no rows",
               "Its first dimension counts the items", ErrorKind::NoInput);
    rows_ = static_cast<std::uint64_t>(header_.shape.front());
    note_ = XXH3_64bits(header_.descr.data(), header_.descr.size());
    note_ = XXH3_64bits_withSeed(row_shape().data(), row_shape().size_bytes(), note_);
}

std::string NpyFile::describe() const {
    return header_.descr + " " + shape_text(items_ == Items::Whole ? row_shape() : std::span(header_.shape));
}

void NpyFile::refuse(const std::string& why, const std::string& hint, ErrorKind code) const {
    throw ConfigError("--input '" + printable(path_) + "': " + why, hint, code);
}

void NpyFile::settle(std::size_t element_bytes) {
    row_bytes_ = element_bytes;
    for (const std::int64_t side : row_shape()) row_bytes_ *= static_cast<std::size_t>(side);
    if (row_bytes_ == 0) refuse("an array " + describe() + " has no elements", "Leave it out");
    const std::uint64_t there = (file_.size() - header_.bytes) / row_bytes_;
    if (rows_ > there)
        refuse("truncated: its header promises " + std::to_string(rows_) + " rows of " + std::to_string(row_bytes_) +
                   " bytes, and there are " + std::to_string(there) + " whole ones",
               "Copy the file again");
}

std::uint64_t NpyFile::note_hash(std::uint64_t row) const {
    if (row % ((rows_ + kLookedAtRows - 1) / kLookedAtRows) != 0) return note_;
    std::array<std::byte, 4096> front;
    const std::size_t bytes = std::min<std::size_t>(front.size(), row_bytes_);
    try {
        return XXH3_64bits_withSeed(front.data(),
                                    read_some(header_.bytes + row * row_bytes_, std::span(front).first(bytes)), note_);
    } catch (const UnreadableItem&) {
        return note_;  // it is skipped with this reason in its turn
    }
}

void NpyFile::read(std::uint64_t row, std::size_t from, std::span<std::byte> to) const {
    if (read_some(header_.bytes + row * row_bytes_ + from, to) < to.size())
        throw UnreadableItem("the file became shorter while it was read");
}

std::size_t NpyFile::read_some(std::uint64_t offset, std::span<std::byte> to) const {
    return or_unreadable([&] { return file_.read_at(offset, to); });
}

}  // namespace offramp
