#include "producer/runner/sources/npy_rows.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include "common/app/images/item_keys.hpp"
#include "common/base/error.hpp"
#include "common/numerics/float16_bits.hpp"

namespace offramp {
namespace {

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

NpyRowLayout NpyRowLayout::of(const NpyFile& file, const TensorSpec& input, const std::string& model,
                              bool model_takes_images) {
    NpyRowLayout layout;
    const std::string& descr = file.header().descr;
    if (descr == "<f4")
        layout.from = Element::Float32;
    else if (descr == "<f2")
        layout.from = Element::Float16;
    else if (descr == "|u1" || descr == "<u1")
        layout.from = Element::UInt8;
    else
        file.refuse("its elements are " + printable(descr) + "; supported are <f4, <f2 and |u1",
                    "Save array.astype('<f4')");
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
        file.refuse(
            "an array " + file.describe() + " has rows of " + shape_text(layout.shape) + ", and the model '" + model +
                "' takes " + shape_text(wanted),
            model_takes_images ? "Bring it to that shape, or the model with --image-size" : "Bring it to that shape");
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
