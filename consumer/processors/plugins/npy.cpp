#include <string>
#include <vector>

#include "common/base/error.hpp"
#include "consumer/processors/processor.hpp"
#include "consumer/processors/row_chunks.hpp"
#include "consumer/processors/sample_array.hpp"
#include "consumer/sinks/atomic_file.hpp"
#include "consumer/sinks/output_name.hpp"

namespace offramp {
namespace {

// The bytes before the array: so many that a mapped file's array is aligned for every element type.
constexpr std::size_t kAlignment = 64;

// NumPy's word for an element type, in little endian. Errors: ConfigError for what NumPy has no word for.
std::string descr_of(const TensorSpec& spec) {
    const std::string bytes = std::to_string(spec.dtype.bytes());
    const char* order = spec.dtype.bytes() == 1 ? "|" : "<";
    const std::size_t size = spec.dtype.bytes();
    const bool whole = size == 1 || size == 2 || size == 4 || size == 8;
    if (spec.dtype.code == 0 && whole) return order + ("i" + bytes);
    if (spec.dtype.code == 1 && whole) return order + ("u" + bytes);
    if (spec.dtype.code == 2 && whole && size > 1) return order + ("f" + bytes);
    if (spec.dtype == kBFloat16) return "<f4";
    if (spec.dtype.code == 5 && (size == 8 || size == 16)) return order + ("c" + bytes);
    if (spec.dtype.code == 6 && size == 1) return "|b1";
    throw ConfigError("processor npy: output " + spec.describe() + " is of a type that NumPy does not have",
                      "Take --processor safetensors or write");
}

// Version 1.0 of the format, of one sample.
std::string npy_header(const TensorSpec& spec) {
    std::string shape;
    for (const std::int64_t side : sample_shape(spec)) shape += std::to_string(side) + ", ";
    if (shape.ends_with(", ")) shape.resize(shape.size() - (spec.dims > 2 ? 2 : 1));
    std::string text = "{'descr': '" + descr_of(spec) + "', 'fortran_order': False, 'shape': (" + shape + "), }";
    constexpr std::string_view kMagic("\x93NUMPY\x01\x00", 8);
    const std::size_t before = kMagic.size() + 2;
    const std::size_t whole = (before + text.size() + 1 + kAlignment - 1) / kAlignment * kAlignment;
    text.append(whole - before - text.size() - 1, ' ');
    text += '\n';
    std::string header(kMagic);
    header += static_cast<char>(text.size() & 0xffU);
    header += static_cast<char>(text.size() >> 8U);
    return header + text;
}

// Writes each sample of each output as an array: OUTPUT/KEY.NAME.npy. NumPy has no bfloat16: such numbers become the float32 of the
// same value.
class Npy final : public Processor {
  public:
    Npy(std::string folder, Durability durability) : folder_(std::move(folder)), durability_(durability) {}

    void process(const SlabContents& slab, const Progress& progress, const StillCurrent& still_current) override {
        for (const SampleView& sample : slab.samples) {
            if (sample.hole) continue;
            for (const TensorView& tensor : slab.tensors) {
                AtomicFile file(sample_path(folder_, sample.key, suffix_of(tensor)), durability_);
                const std::string header = npy_header(tensor.spec);
                file.write(std::as_bytes(std::span(header)));
                in_chunks(array_.of(tensor, sample.row), progress, [&](std::span<const std::byte> chunk) {
                    file.write(tensor.spec.dtype == kBFloat16 ? widened(chunk) : chunk);
                });
                if (!still_current()) return;
                file.commit();
            }
        }
    }

    std::vector<std::string> files_of(const SlabContents& slab, const SampleView& sample) const override {
        std::vector<std::string> files;
        for (const TensorView& tensor : slab.tensors) files.push_back(sample.key + suffix_of(tensor));
        return files;
    }

  private:
    static std::string suffix_of(const TensorView& tensor) { return "." + std::string(checked_output_name(tensor.spec.name)) + ".npy"; }

    // A bfloat16 is the upper half of the float32 of its value.
    std::span<const std::byte> widened(std::span<const std::byte> halves) {
        floats_.assign(halves.size() * 2, std::byte{0});
        for (std::size_t i = 0; i < halves.size(); i += 2) {
            floats_[2 * i + 2] = halves[i];
            floats_[2 * i + 3] = halves[i + 1];
        }
        return floats_;
    }

    std::string folder_;
    Durability durability_;
    SampleArray array_;
    std::vector<std::byte> floats_;
};

}  // namespace

std::unique_ptr<Processor> make_npy(const ProcessorOptions& options) {
    return std::make_unique<Npy>(options.output_for("npy"), options.durability());
}

}  // namespace offramp
