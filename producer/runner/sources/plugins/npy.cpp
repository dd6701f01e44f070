#include <algorithm>
#include <array>
#include <cstring>

#include "common/base/error.hpp"
#include "common/images/item_keys.hpp"
#include "common/numerics/float16_bits.hpp"
#include "producer/runner/sources/batch_source.hpp"
#include "producer/runner/sources/npy_file.hpp"
#include "producer/runner/sources/npy_folder.hpp"

namespace offramp {
namespace {

constexpr std::size_t kBytesAtOnce = std::size_t{32} << 10;

// How a file's row becomes a staged row: what each element is turned into, and where it goes. Pure.
struct RowLayout {
    enum class Element { Float32, Float16, UInt8 };
    Element from = Element::Float32;
    RowKind to = RowKind::Float32;
    std::vector<std::int64_t> shape;    // of the file's row
    std::vector<std::int64_t> strides;  // in staged elements; empty: as it lies

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
            case RowLayout::Element::Float32:
                std::memcpy(&value, block.data() + i * 4, 4);
                break;
            case RowLayout::Element::Float16:
                std::memcpy(&half, block.data() + i * 2, 2);
                value = float_of_float16(half);
                break;
            case RowLayout::Element::UInt8:
                value = std::to_integer<std::uint8_t>(block[i]);
                break;
        }
        std::memcpy(to, &value, sizeof value);
    }
}

// The rows of one array.
class NpySource final : public BatchSource {
  public:
    NpySource(const SourceOptions& options) : file_(options.input->input) {
        choose_layout(options);
        file_.settle(layout_.from_bytes());
        description_ = "npy: " + std::to_string(items()) + " rows of " + shape_text(layout_.shape) + " " +
                       file_.header().descr + " in " + printable(file_.path());
    }

    std::string description() const override { return description_; }
    std::uint64_t items() const override { return file_.rows(); }
    RowKind row_kind() const override { return layout_.to; }
    std::string_view key(std::uint64_t) const override { return {}; }
    std::size_t max_key_bytes() const override { return 0; }
    std::string origin(std::uint64_t item) const override {
        return printable(file_.path()) + " row " + std::to_string(item);
    }
    std::uint64_t note_hash(std::uint64_t item) const override { return file_.note_hash(item); }

    void load(std::uint64_t item, std::span<std::byte> row) override {
        expect(row.size() == file_.row_bytes() / layout_.from_bytes() * layout_.to_bytes(),
               "the row holds exactly the array's");
        const bool as_it_is = layout_.strides.empty() && layout_.from_bytes() == layout_.to_bytes();
        if (as_it_is) return file_.read(item, 0, row);
        std::array<std::byte, kBytesAtOnce> block;
        Places places(layout_);
        for (std::size_t done = 0; done < file_.row_bytes();) {
            const auto part = std::span(block).first(std::min(block.size(), file_.row_bytes() - done));
            file_.read(item, done, part);
            convert(layout_, part, places, row);
            done += part.size();
        }
    }

  private:
    void choose_layout(const SourceOptions& options) {
        const TensorSpec& input = options.model_input;
        const std::string& descr = file_.header().descr;
        if (descr == "<f4")
            layout_.from = RowLayout::Element::Float32;
        else if (descr == "<f2")
            layout_.from = RowLayout::Element::Float16;
        else if (descr == "|u1" || descr == "<u1")
            layout_.from = RowLayout::Element::UInt8;
        else
            file_.refuse("its elements are " + printable(descr) + "; read are <f4, <f2 and |u1",
                         "Save array.astype('<f4')");
        if (input.dims == 0)
            throw ConfigError("source 'npy' gives input, and the model '" + options.model->model + "' takes none",
                              "Choose a model that takes input");
        if (input.dtype != kFloat32 && input.dtype != kBFloat16)
            throw ConfigError("source 'npy' gives floating-point input, and the model '" + options.model->model +
                                  "' takes " + input.describe(),
                              "Choose a model that takes floating-point input");
        layout_.shape.assign(file_.row_shape().begin(), file_.row_shape().end());
        const std::vector<std::int64_t> wanted(input.shape.begin() + 1,
                                               input.shape.begin() + static_cast<std::ptrdiff_t>(input.dims));
        const bool pixels = layout_.from == RowLayout::Element::UInt8 && options.model_takes_images && input.dims == 4;
        if (pixels && layout_.shape == std::vector<std::int64_t>{wanted[1], wanted[2], wanted[0]}) {
            layout_.to = RowKind::Pixels;
        } else if (pixels && layout_.shape == wanted) {
            layout_.to = RowKind::Pixels;
            layout_.strides = {1, wanted[2] * wanted[0], wanted[0]};
        } else if (layout_.shape == wanted) {
            layout_.strides.assign(input.strides.begin() + 1,
                                   input.strides.begin() + static_cast<std::ptrdiff_t>(input.dims));
            if (layout_.strides == row_major(wanted)) layout_.strides.clear();
        } else {
            file_.refuse("an array " + file_.describe() + " has rows of " + shape_text(layout_.shape) +
                             ", and the model '" + options.model->model + "' takes " + shape_text(wanted),
                         options.model_takes_images ? "Bring it to that shape, or the model with --image-size"
                                                    : "Bring it to that shape");
        }
    }

    static std::vector<std::int64_t> row_major(std::span<const std::int64_t> shape) {
        std::vector<std::int64_t> strides(shape.size(), 1);
        for (std::size_t d = shape.size(); d-- > 1;) strides[d - 1] = strides[d] * shape[d];
        return strides;
    }

    NpyFile file_;
    std::string description_;
    RowLayout layout_;
};

}  // namespace

// The rows of an array in a .npy file, [items, ...]: float32 and float16 are the model's input itself; 8 bits are
// pixels where the model takes pictures ([H, W, 3] or [3, H, W]), and numbers of 0 to 255 where it does not. To a model
// of several arrays: those of a folder.
std::unique_ptr<BatchSource> make_npy(const SourceOptions& options) {
    if (options.input->input.empty())
        throw ConfigError("--input '': the source npy needs an input and none is given", "Give --input a .npy file",
                          ErrorKind::NoInput);
    if (!options.parts.empty()) return make_npy_folder(options);
    return std::make_unique<NpySource>(options);
}

}  // namespace offramp
