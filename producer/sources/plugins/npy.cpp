#include <algorithm>
#include <array>
#include <cstring>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "common/base/error.hpp"
#include "common/base/regular_file.hpp"
#include "common/images/item_keys.hpp"
#include "common/slab/float16_bits.hpp"
#include "producer/sources/batch_source.hpp"
#include "producer/sources/npy_header.hpp"

namespace offramp {
namespace {

constexpr std::uint64_t kLookedAtRows = 64;           // whose fronts tell one array from another of its shape
constexpr std::size_t kBlockBytes = std::size_t{32} << 10;

std::string shape_text(std::span<const std::int64_t> shape) {
    std::string text;
    for (const std::int64_t side : shape) text += (text.empty() ? "" : ", ") + std::to_string(side);
    return "[" + text + "]";
}

// How a file's row becomes a staged row: what each element is turned into, and where it goes. Pure.
struct RowLayout {
    enum class Element { Float32, Float16, UInt8 };
    Element from = Element::Float32;
    RowKind to = RowKind::Float32;
    std::vector<std::int64_t> shape;     // of the file's row
    std::vector<std::int64_t> strides;   // in staged elements; empty: as it lies

    std::size_t from_bytes() const { return from == Element::Float32 ? 4 : from == Element::Float16 ? 2 : 1; }
    std::size_t to_bytes() const { return to == RowKind::Pixels ? 1 : 4; }
};

// Walks through the places of a row's elements, in the order in which the file has them.
class Places {
  public:
    explicit Places(const RowLayout& layout) : layout_(layout), counts_(layout.shape.size(), 0) {}

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
    const RowLayout& layout_;
    std::vector<std::int64_t> counts_;
    std::int64_t place_ = 0;
};

void convert(const RowLayout& layout, std::span<const std::byte> block, Places& places, std::span<std::byte> row) {
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
            case RowLayout::Element::Float32: std::memcpy(&value, block.data() + i * 4, 4); break;
            case RowLayout::Element::Float16:
                std::memcpy(&half, block.data() + i * 2, 2);
                value = float_of_float16(half);
                break;
            case RowLayout::Element::UInt8: value = std::to_integer<std::uint8_t>(block[i]); break;
        }
        std::memcpy(to, &value, sizeof value);
    }
}

// The rows of one array. They are read, not mapped: as fast from the page cache, and a file that shrinks is an error, not a SIGBUS.
class NpySource final : public BatchSource {
  public:
    NpySource(const SourceOptions& options) : path_(options.config->input), file_(opened()) {
        const NpyHeader header = read_header();
        choose_layout(header, options);
        items_ = static_cast<std::uint64_t>(header.shape.front());
        begin_ = header.bytes;
        check_bytes();
        note_ = XXH3_64bits(header.descr.data(), header.descr.size());
        note_ = XXH3_64bits_withSeed(layout_.shape.data(), layout_.shape.size() * sizeof(std::int64_t), note_);
        description_ = "npy: " + std::to_string(items_) + " rows of " + shape_text(layout_.shape) + " " + header.descr + " in " + printable(path_);
    }

    std::string description() const override { return description_; }
    std::uint64_t items() const override { return items_; }
    RowKind row_kind() const override { return layout_.to; }
    std::string_view key(std::uint64_t) const override { return {}; }
    std::size_t max_key_bytes() const override { return 0; }
    std::string origin(std::uint64_t item) const override { return printable(path_) + " row " + std::to_string(item); }

    // Type and shape; of some rows also how they begin: no names would tell one array from another.
    std::uint64_t note_hash(std::uint64_t item) const override {
        if (item % ((items_ + kLookedAtRows - 1) / kLookedAtRows) != 0) return note_;
        std::array<std::byte, 4096> front;
        const std::size_t bytes = std::min<std::size_t>(front.size(), row_bytes_);
        try {
            return XXH3_64bits_withSeed(front.data(), read_some(item, 0, std::span(front).first(bytes)), note_);
        } catch (const UnreadableItem&) {
            return note_;   // it is skipped with this reason when its turn comes
        }
    }

    void load(std::uint64_t item, std::span<std::byte> row) override {
        expect(row.size() == row_bytes_ / layout_.from_bytes() * layout_.to_bytes(), "the row holds exactly the array's");
        const bool as_it_is = layout_.strides.empty() && layout_.from_bytes() == layout_.to_bytes();
        if (as_it_is) return read_all(item, 0, row);
        std::array<std::byte, kBlockBytes> block;
        Places places(layout_);
        for (std::size_t done = 0; done < row_bytes_;) {
            const auto part = std::span(block).first(std::min(block.size(), row_bytes_ - done));
            read_all(item, done, part);
            convert(layout_, part, places, row);
            done += part.size();
        }
    }

  private:
    [[noreturn]] void refuse(const std::string& why, const std::string& hint, ExitCode code = ExitCode::BadInput) const {
        throw ConfigError("--input '" + printable(path_) + "': " + why, hint, code);
    }

    RegularFile opened() const {
        if (path_.empty()) refuse("the source npy needs an input and none is given", "Give --input a .npy file", ExitCode::NoInput);
        try {
            return RegularFile(path_);
        } catch (const Error& problem) {
            refuse(problem.what(), "Give --input a .npy file", problem.exit_code());
        }
    }

    NpyHeader read_header() const {
        std::vector<std::byte> front(std::min<std::uint64_t>(file_.size(), kMostNpyHeaderBytes));
        try {
            front.resize(read_at(0, front));
            return read_npy_header(front);
        } catch (const UnreadableItem& problem) {
            refuse(problem.what(), "Check the file system that it lies on");
        } catch (const ConfigError& problem) {
            refuse(problem.what(), "");
        }
    }

    void choose_layout(const NpyHeader& header, const SourceOptions& options) {
        const TensorSpec& input = options.model_input;
        const std::string found = header.descr + " " + shape_text(header.shape);
        if (header.descr == "<f4") layout_.from = RowLayout::Element::Float32;
        else if (header.descr == "<f2") layout_.from = RowLayout::Element::Float16;
        else if (header.descr == "|u1" || header.descr == "<u1") layout_.from = RowLayout::Element::UInt8;
        else refuse("its elements are " + printable(header.descr) + "; read are <f4, <f2 and |u1", "Save array.astype('<f4')");
        if (header.fortran_order && header.shape.size() > 1) refuse("it is stored in Fortran order", "Save numpy.ascontiguousarray(array)");
        if (header.shape.empty() || header.shape.front() == 0)
            refuse("an array of shape " + shape_text(header.shape) + " has no rows", "Its first dimension counts the items", ExitCode::NoInput);
        if (input.dims == 0)
            throw ConfigError("source 'npy' gives input, and the model '" + options.config->model + "' takes none", "Choose a model that takes input");
        if (input.dtype != kFloat32 && input.dtype != kBFloat16)
            throw ConfigError("source 'npy' gives floating-point input, and the model '" + options.config->model + "' takes " + input.describe(),
                              "Choose a model that takes floating-point input");
        layout_.shape.assign(header.shape.begin() + 1, header.shape.end());
        const std::vector<std::int64_t> wanted(input.shape.begin() + 1, input.shape.begin() + static_cast<std::ptrdiff_t>(input.dims));
        const bool pixels = layout_.from == RowLayout::Element::UInt8 && options.model_takes_images && input.dims == 4;
        if (pixels && layout_.shape == std::vector<std::int64_t>{wanted[1], wanted[2], wanted[0]}) {
            layout_.to = RowKind::Pixels;
        } else if (pixels && layout_.shape == wanted) {
            layout_.to = RowKind::Pixels;
            layout_.strides = {1, wanted[2] * wanted[0], wanted[0]};
        } else if (layout_.shape == wanted) {
            layout_.strides.assign(input.strides.begin() + 1, input.strides.begin() + static_cast<std::ptrdiff_t>(input.dims));
            if (layout_.strides == row_major(wanted)) layout_.strides.clear();
        } else {
            refuse("an array " + found + " has rows of " + shape_text(layout_.shape) + ", and the model '" + options.config->model + "' takes " +
                       shape_text(wanted),
                   options.model_takes_images ? "Bring it to that shape, or the model with --image-size" : "Bring it to that shape");
        }
    }

    static std::vector<std::int64_t> row_major(std::span<const std::int64_t> shape) {
        std::vector<std::int64_t> strides(shape.size(), 1);
        for (std::size_t d = shape.size(); d-- > 1;) strides[d - 1] = strides[d] * shape[d];
        return strides;
    }

    // The row has the size of the model's, which fits into memory; rows in any number need not.
    void check_bytes() {
        row_bytes_ = layout_.from_bytes();
        for (const std::int64_t side : layout_.shape) row_bytes_ *= static_cast<std::size_t>(side);
        const std::uint64_t there = file_.size() - begin_;
        if (items_ > there / row_bytes_)
            refuse("truncated: its header promises " + std::to_string(items_) + " rows of " + std::to_string(row_bytes_) + " bytes, and there are " +
                       std::to_string(there / row_bytes_) + " whole ones",
                   "Copy the file again");
    }

    std::size_t read_at(std::uint64_t offset, std::span<std::byte> to) const {
        return or_unreadable([&] { return file_.read_at(offset, to); });
    }
    std::size_t read_some(std::uint64_t item, std::size_t from, std::span<std::byte> to) const {
        return read_at(begin_ + item * row_bytes_ + from, to);
    }
    void read_all(std::uint64_t item, std::size_t from, std::span<std::byte> to) const {
        if (read_some(item, from, to) < to.size()) throw UnreadableItem("the file became shorter while it was read");
    }

    std::string path_;
    RegularFile file_;
    std::string description_;
    std::uint64_t items_ = 0;
    std::uint64_t begin_ = 0;      // of the numbers
    std::size_t row_bytes_ = 0;    // in the file
    std::uint64_t note_ = 0;
    RowLayout layout_;
};

}  // namespace

// The rows of an array in a .npy file, [items, ...]: float32 and float16 are the model's input itself; 8 bits are pixels where the model
// takes pictures ([H, W, 3] or [3, H, W]), and numbers of 0 to 255 where it does not.
std::unique_ptr<BatchSource> make_npy(const SourceOptions& options) { return std::make_unique<NpySource>(options); }

}  // namespace offramp
