#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "common/base/error.hpp"
#include "consumer/processors/class_argmax.hpp"
#include "consumer/processors/palette_png.hpp"
#include "consumer/processors/processor.hpp"
#include "consumer/processors/row_chunks.hpp"
#include "consumer/sinks/atomic_file.hpp"
#include "consumer/sinks/output_name.hpp"

namespace offramp {
namespace {

bool is_class_map(const TensorSpec& spec) {
    return spec.dims == 3 && spec.dtype == kUInt8;
}

bool is_scores(const TensorSpec& spec) {
    return spec.dims == 4 && (spec.dtype == kFloat32 || spec.dtype == kFloat16 || spec.dtype == kBFloat16);
}

// Why an output cannot become masks; empty when it can.
std::string obstacle(const TensorSpec& spec) {
    if (!is_class_map(spec) && !is_scores(spec))
        return "needed are class ids, uint8 [N, H, W], or class scores, float32, float16 or bfloat16 [N, C, "
               "H, W]";
    if (is_scores(spec) && (spec.shape[1] < 1 || spec.shape[1] > kMaxClasses))
        return "it has " + std::to_string(spec.shape[1]) + " classes, a mask holds 1 to " +
               std::to_string(kMaxClasses);
    const std::int64_t height = spec.shape[spec.dims - 2];
    const std::int64_t width = spec.shape[spec.dims - 1];
    constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
    if (height < 1 || height > kMost || width < 1 || width > kMost)
        return "a PNG file has 1 to 2147483647 rows and columns";
    return {};
}

// The outputs that can become masks. Errors: ConfigError when there is none, with what stands in the way of
// each.
std::vector<const TensorView*> mask_outputs(const SlabContents& slab) {
    if (slab.transform == OutputTransform::LowRes)
        throw ConfigError(
            "processor mask-png cannot enlarge low-res scores (by " + std::to_string(slab.expansion) + ")",
            "Choose --transform none or class-map");
    std::vector<const TensorView*> fitting;
    std::string reasons;
    for (const TensorView& tensor : slab.tensors) {
        const std::string reason = obstacle(tensor.spec);
        if (reason.empty())
            fitting.push_back(&tensor);
        else
            reasons += "; output " + tensor.spec.describe() + ": " + reason;
    }
    if (fitting.empty())
        throw ConfigError(
            "processor mask-png finds no output of model '" + slab.model + "' to make masks of" + reasons,
            "Choose a segmentation model or another --processor");
    return fitting;
}

// Makes a palette PNG of class ids of every sample: OUTPUT/KEY.png, or OUTPUT/KEY.NAME.png when several
// outputs fit.
class MaskPng final : public Processor {
  public:
    MaskPng(std::string folder, int level) : folder_(std::move(folder)), png_(level) {}

    void process(const SlabContents& slab, const Progress& progress,
                 const StillCurrent& still_current) override {
        const auto outputs = mask_outputs(slab);
        for (const SampleView& sample : slab.samples) {
            if (sample.hole) continue;
            for (const TensorView* output : outputs) {
                const TensorSpec& spec = output->spec;
                const auto ids = ids_of(*output, sample.row, progress);
                const auto width = static_cast<std::uint32_t>(spec.shape[spec.dims - 1]);
                const auto height = static_cast<std::uint32_t>(spec.shape[spec.dims - 2]);
                const auto file = png_.encode(ids, width, height, progress);
                if (!still_current()) return;
                const std::string name =
                    outputs.size() == 1 ? "" : "." + std::string(checked_output_name(spec.name));
                write_atomically(sample_path(folder_, sample.key, name + ".png"), file);
            }
        }
    }

  private:
    // Class ids of one sample, row by row: the slab's own bytes where they lie so.
    std::span<const std::uint8_t> ids_of(const TensorView& tensor, std::size_t row,
                                         const Progress& progress) {
        const TensorSpec& spec = tensor.spec;
        const auto bytes = tensor.row(row);
        if (is_scores(spec)) return reduce(spec, bytes, progress);
        const auto* ids = reinterpret_cast<const std::uint8_t*>(bytes.data());
        const std::int64_t height = spec.shape[1];
        const std::int64_t width = spec.shape[2];
        if (width == 1 || (spec.strides[2] == 1 && (height == 1 || spec.strides[1] == width)))
            return {ids, bytes.size()};
        ids_.resize(bytes.size());
        std::size_t next = 0;
        for (std::int64_t y = 0; y < height; ++y)
            for (std::int64_t x = 0; x < width; ++x)
                ids_[next++] = ids[y * spec.strides[1] + x * spec.strides[2]];
        return ids_;
    }

    std::span<const std::uint8_t> reduce(const TensorSpec& spec, std::span<const std::byte> bytes,
                                         const Progress& progress) {
        if (reinterpret_cast<std::uintptr_t>(bytes.data()) % spec.dtype.bytes() != 0)
            throw ProtocolError("output " + spec.describe() +
                                " lies at an address that is no multiple of its element's size");
        const ClassScores scores{.data = bytes.data(),
                                 .dtype = spec.dtype,
                                 .classes = spec.shape[1],
                                 .height = spec.shape[2],
                                 .width = spec.shape[3],
                                 .class_stride = spec.strides[1],
                                 .row_stride = spec.strides[2],
                                 .column_stride = spec.strides[3]};
        ids_.resize(static_cast<std::size_t>(scores.height * scores.width));
        const auto line_bytes = scores.classes * scores.width * static_cast<std::int64_t>(spec.dtype.bytes());
        const auto rows_at_once =
            std::max<std::int64_t>(1, static_cast<std::int64_t>(kProgressBytes) / line_bytes);
        for (std::int64_t y = 0; y < scores.height; y += rows_at_once) {
            const std::int64_t rows = std::min(rows_at_once, scores.height - y);
            argmax_.run(scores, y, rows,
                        std::span(ids_).subspan(static_cast<std::size_t>(y * scores.width),
                                                static_cast<std::size_t>(rows * scores.width)));
            progress();
        }
        return ids_;
    }

    std::string folder_;
    PalettePng png_;
    ClassArgmax argmax_;
    std::vector<std::uint8_t> ids_;
};

}  // namespace

std::unique_ptr<Processor> make_mask_png(const ProcessorOptions& options) {
    const std::string& output = options.config->output;
    if (output.empty())
        throw ConfigError("processor mask-png needs --output", "Give the folder for the masks");
    if (options.config->png_level > 9)
        throw ConfigError("--png-level is " + std::to_string(options.config->png_level),
                          "zlib's levels are 0 to 9");
    require_writable_folder(output);
    return std::make_unique<MaskPng>(output, static_cast<int>(options.config->png_level));
}

}  // namespace offramp
