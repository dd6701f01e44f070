#include "producer/runner/sources/npy_file.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <string_view>
#include <utility>
#include <vector>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "common/app/images/item_keys.hpp"
#include "common/app/images/unreadable_item.hpp"
#include "common/base/error.hpp"
#include "common/numerics/float16_bits.hpp"
#include "common/wire/shape_text.hpp"

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

using namespace std::string_view_literals;

[[noreturn]] void refuse(const std::string& why) {
    throw ConfigError("not a valid .npy file: " + why, "Write it with numpy.save()", ErrorKind::BadInput);
}

// The header's text, a Python dictionary of three entries: {'descr': '<f4', 'fortran_order': False, 'shape': (100, 3,
// 64, 64), }
class Dictionary {
  public:
    explicit Dictionary(std::string_view text) : left_(text) {}

    NpyHeader read() {
        NpyHeader header;
        bool descr = false, order = false, shape = false;
        want('{');
        while (!take('}')) {
            const std::string key = quoted();
            want(':');
            if (key == "descr" && !descr) {
                descr = true;
                skip_blanks();
                if (left_.starts_with('[')) refuse("its elements are records with several fields");
                header.descr = quoted();
            } else if (key == "fortran_order" && !order) {
                order = true;
                header.fortran_order = truth();
            } else if (key == "shape" && !shape) {
                shape = true;
                header.shape = numbers();
            } else {
                refuse("its header has an entry too many");
            }
            if (take('}')) break;
            want(',');
        }
        if (!descr || !order || !shape) refuse("its header lacks descr, fortran_order or shape");
        skip_blanks();
        if (!left_.empty()) refuse("its header continues after its end");
        return header;
    }

  private:
    void skip_blanks() { left_.remove_prefix(std::min(left_.find_first_not_of(" \t\r\n"), left_.size())); }
    bool take(char c) {
        skip_blanks();
        if (!left_.starts_with(c)) return false;
        left_.remove_prefix(1);
        return true;
    }
    void want(char c) {
        if (!take(c)) refuse(std::string("its header lacks a '") + c + "'");
    }
    bool take_word(std::string_view word) {
        skip_blanks();
        if (!left_.starts_with(word)) return false;
        left_.remove_prefix(word.size());
        return true;
    }
    std::string quoted() {
        skip_blanks();
        const char quote = left_.empty() ? '\0' : left_.front();
        const std::size_t end = quote == '\'' || quote == '"' ? left_.find(quote, 1) : std::string_view::npos;
        if (end == std::string_view::npos) refuse("its header lacks a text");
        std::string text(left_.substr(1, end - 1));
        left_.remove_prefix(end + 1);
        return text;
    }
    bool truth() {
        if (take_word("True")) return true;
        if (!take_word("False")) refuse("its fortran_order is neither True nor False");
        return false;
    }
    std::vector<std::int64_t> numbers() {
        std::vector<std::int64_t> all;
        want('(');
        while (!take(')')) {
            skip_blanks();
            std::int64_t number = 0;
            const auto result = std::from_chars(left_.data(), left_.data() + left_.size(), number);
            if (result.ec != std::errc() || number < 0) refuse("its shape is not a list of numbers from 0 up");
            left_.remove_prefix(static_cast<std::size_t>(result.ptr - left_.data()));
            all.push_back(number);
            if (take(')')) break;
            want(',');
        }
        return all;
    }

    std::string_view left_;
};

constexpr std::size_t kBytesAtOnce = std::size_t{32} << 10;

// Iterates over the places of a row's elements, in the file's order.
class ElementPlaces {
  public:
    explicit ElementPlaces(const NpyRowLayout& layout) : layout_(layout), counts_(layout.shape.size(), 0) {}

    std::size_t next() {
        if (layout_.strides.empty()) return static_cast<std::size_t>(place_++);
        const std::int64_t now = place_;
        for (std::size_t d = counts_.size(); d-- > 0;) {
            place_ += layout_.strides[d];
            if (++counts_[d] < layout_.shape[d]) break;
            place_ -= layout_.strides[d] * counts_[d];
            counts_[d] = 0;
        }
        return static_cast<std::size_t>(now);
    }

  private:
    const NpyRowLayout& layout_;
    std::vector<std::int64_t> counts_;
    std::int64_t place_ = 0;
};

void convert(const NpyRowLayout& layout, std::span<const std::byte> block, ElementPlaces& places,
             std::span<std::byte> row) {
    const std::size_t elements = block.size() / layout.from_bytes();
    for (std::size_t i = 0; i < elements; ++i) {
        std::byte* const to = row.data() + places.next() * layout.to_bytes();
        if (layout.to == RowKind::Pixels) {
            *to = block[i];
            continue;
        }
        float value = 0;
        std::uint16_t half = 0;
        switch (layout.from) {
            case NpyRowLayout::Element::Float32:
                std::memcpy(&value, block.data() + i * 4, 4);
                break;
            case NpyRowLayout::Element::Float16:
                std::memcpy(&half, block.data() + i * 2, 2);
                value = float_of_float16(half);
                break;
            case NpyRowLayout::Element::UInt8:
                value = std::to_integer<std::uint8_t>(block[i]);
                break;
        }
        std::memcpy(to, &value, sizeof value);
    }
}

std::vector<std::int64_t> row_major(std::span<const std::int64_t> shape) {
    std::vector<std::int64_t> strides(shape.size(), 1);
    for (std::size_t d = shape.size(); d-- > 1;) strides[d - 1] = strides[d] * shape[d];
    return strides;
}

}  // namespace

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
        return note_;  // the row is skipped with this reason in its turn
    }
}

void NpyFile::read(std::uint64_t row, std::size_t from, std::span<std::byte> to) const {
    if (read_some(header_.bytes + row * row_bytes_ + from, to) < to.size())
        throw UnreadableItem("the file became shorter while it was read");
}

std::size_t NpyFile::read_some(std::uint64_t offset, std::span<std::byte> to) const {
    return or_unreadable([&] { return file_.read_at(offset, to); });
}

NpyHeader read_npy_header(std::span<const std::byte> front) {
    const std::string_view text(reinterpret_cast<const char*>(front.data()), front.size());
    if (!text.starts_with("\x93NUMPY"sv)) refuse("it does not begin with the magic of .npy");
    if (text.size() < 10) refuse("it ends within its header");
    const auto byte = [&](std::size_t at) { return std::to_integer<std::size_t>(front[at]); };
    const std::size_t version = byte(6);
    if (version < 1 || version > 3) refuse("its format's version is " + std::to_string(version) + "; known are 1 to 3");
    const std::size_t length_bytes = version == 1 ? 2 : 4;
    const std::size_t begin = 8 + length_bytes;
    if (text.size() < begin) refuse("it ends within its header");
    std::size_t length = 0;
    for (std::size_t i = length_bytes; i-- > 0;) length = (length << 8U) | byte(8 + i);
    if (length > kMostNpyHeaderBytes - begin) refuse("its header claims " + std::to_string(length) + " bytes");
    if (length > text.size() - begin) refuse("it ends within its header");
    NpyHeader header = Dictionary(text.substr(begin, length)).read();
    header.bytes = begin + length;
    return header;
}

NpyRowLayout::Element NpyRowLayout::element_of(const NpyFile& file) {
    const std::string& descr = file.header().descr;
    if (descr == "<f4") return Element::Float32;
    if (descr == "<f2") return Element::Float16;
    if (descr == "|u1" || descr == "<u1") return Element::UInt8;
    file.refuse("its elements are " + printable(descr) + "; supported are <f4, <f2 and |u1",
                "Save array.astype('<f4')");
}

NpyRowLayout NpyRowLayout::of(const NpyFile& file, const TensorSpec& input, const std::string& model,
                              bool model_takes_images) {
    NpyRowLayout layout{.from = element_of(file)};
    if (input.dims == 0)
        throw ConfigError("source 'npy' gives input, but the model '" + model + "' takes none",
                          "Choose a model that takes input");
    if (input.dtype != kFloat32 && input.dtype != kBFloat16)
        throw ConfigError(
            "source 'npy' gives floating-point input, but the model '" + model + "' takes " + input.describe(),
            "Choose a model that takes floating-point input");
    layout.shape.assign(file.row_shape().begin(), file.row_shape().end());
    const std::vector<std::int64_t> wanted(input.shape.begin() + 1,
                                           input.shape.begin() + static_cast<std::ptrdiff_t>(input.dims));
    const bool pixels = layout.from == Element::UInt8 && model_takes_images && input.dims == 4;
    if (pixels && layout.shape == std::vector<std::int64_t>{wanted[1], wanted[2], wanted[0]}) {
        layout.to = RowKind::Pixels;
    } else if (pixels && layout.shape == wanted) {
        layout.to = RowKind::Pixels;
        layout.strides = {1, wanted[2] * wanted[0], wanted[0]};
    } else if (layout.shape == wanted) {
        layout.strides.assign(input.strides.begin() + 1,
                              input.strides.begin() + static_cast<std::ptrdiff_t>(input.dims));
        if (layout.strides == row_major(wanted)) layout.strides.clear();
    } else {
        file.refuse("an array " + file.describe() + " has rows of " + shape_text(layout.shape) + ", and the model '" +
                        model + "' takes " + shape_text(wanted),
                    std::string(model_takes_images ? "Bring it to that shape, or the model with --image-size"
                                                   : "Bring it to that shape") +
                        (file.is_one_item() ? "; or give --resize none, for arrays of any shape" : ""));
    }
    return layout;
}

void stage_row(const NpyFile& file, std::uint64_t item, const NpyRowLayout& layout, std::span<std::byte> row) {
    expect(row.size() == file.row_bytes() / layout.from_bytes() * layout.to_bytes(),
           "the row holds exactly the array's");
    const bool as_it_is = layout.strides.empty() && layout.from_bytes() == layout.to_bytes();
    if (as_it_is) return file.read(item, 0, row);
    std::array<std::byte, kBytesAtOnce> block;
    ElementPlaces places(layout);
    for (std::size_t done = 0; done < file.row_bytes();) {
        const auto part = std::span(block).first(std::min(block.size(), file.row_bytes() - done));
        file.read(item, done, part);
        convert(layout, part, places, row);
        done += part.size();
    }
}

}  // namespace offramp
