#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "common/base/error.hpp"
#include "consumer/processors/class_argmax.hpp"
#include "consumer/processors/enlarged_sample.hpp"
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

// The plane beside a class map; it has a class map's shape.
bool is_confidence(const SlabContents& slab, const TensorSpec& spec) {
    return slab.transform == OutputTransform::ClassMap &&
           (spec.name == "confidence" || spec.name.ends_with(".confidence"));
}

// Why an output cannot become masks; empty when it can.
std::string obstacle(const TensorSpec& spec, std::uint32_t expansion) {
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
    if (expansion > 1 && (height > EnlargedSample::kLongestSide / expansion ||
                          width > EnlargedSample::kLongestSide / expansion))
        return "enlarged by " + std::to_string(expansion) + " it has more than " +
               std::to_string(EnlargedSample::kLongestSide) + " rows or columns";
    return {};
}

// The outputs that can become masks. Errors: ConfigError when there is none, with what stands in the way of
// each.
std::vector<const TensorView*> mask_outputs(const SlabContents& slab) {
    std::vector<const TensorView*> fitting;
    std::string reasons;
    for (const TensorView& tensor : slab.tensors) {
        if (is_confidence(slab, tensor.spec)) continue;
        const std::string reason = obstacle(tensor.spec, slab.expansion);
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
    MaskPng(std::string folder, int level, Durability durability) : folder_(std::move(folder)), durability_(durability), png_(level) {}

    void process(const SlabContents& slab, const Progress& progress,
                 const StillCurrent& still_current) override {
        const auto outputs = mask_outputs(slab);
        for (const SampleView& sample : slab.samples) {
            if (sample.hole) continue;
            for (const TensorView* output : outputs) {
                const TensorSpec& spec = output->spec;
                const std::uint32_t expansion = is_scores(spec) ? slab.expansion : 1;
                const auto ids = ids_of(*output, sample.row, expansion, progress);
                const auto width = static_cast<std::uint32_t>(spec.shape[spec.dims - 1]) * expansion;
                const auto height = static_cast<std::uint32_t>(spec.shape[spec.dims - 2]) * expansion;
                const auto file = png_.encode(ids, width, height, progress);
                if (!still_current()) return;
                const std::string name =
                    outputs.size() == 1 ? "" : "." + std::string(checked_output_name(spec.name));
                write_atomically(sample_path(folder_, sample.key, name + ".png"), file, durability_);
            }
        }
    }

  private:
    // Class ids of one sample, row by row: the slab's own bytes where they lie so.
    std::span<const std::uint8_t> ids_of(const TensorView& tensor, std::size_t row, std::uint32_t expansion,
                                         const Progress& progress) {
        const TensorSpec& spec = tensor.spec;
        const auto bytes = tensor.row(row);
        if (is_scores(spec)) {
            const ClassScores scores = scores_in(spec, bytes);
            return expansion > 1 ? enlarge(scores, expansion, progress) : reduce(scores, progress);
        }
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

    static ClassScores scores_in(const TensorSpec& spec, std::span<const std::byte> bytes) {
        if (reinterpret_cast<std::uintptr_t>(bytes.data()) % spec.dtype.bytes() != 0)
            throw ProtocolError("output " + spec.describe() +
                                " lies at an address that is no multiple of its element's size");
        return {.data = bytes.data(),
                .dtype = spec.dtype,
                .classes = spec.shape[1],
                .height = spec.shape[2],
                .width = spec.shape[3],
                .class_stride = spec.strides[1],
                .row_stride = spec.strides[2],
                .column_stride = spec.strides[3]};
    }

    // Line by line: the enlarged scores never leave the cache.
    std::span<const std::uint8_t> enlarge(const ClassScores& scores, std::uint32_t expansion,
                                          const Progress& progress) {
        enlarged_.begin(scores, expansion);
        const std::int64_t width = enlarged_.width();
        ids_.resize(static_cast<std::size_t>(enlarged_.height() * width));
        const auto line_bytes = scores.classes * width * static_cast<std::int64_t>(sizeof(float));
        std::int64_t done_bytes = 0;
        for (std::int64_t y = 0; y < enlarged_.height(); ++y) {
            const auto line = std::as_bytes(enlarged_.line(y));
            argmax_.run({.data = line.data(),
                         .dtype = kFloat32,
                         .classes = scores.classes,
                         .height = 1,
                         .width = width,
                         .class_stride = width,
                         .row_stride = width,
                         .column_stride = 1},
                        0, 1, std::span(ids_).subspan(static_cast<std::size_t>(y * width), static_cast<std::size_t>(width)));
            done_bytes += line_bytes;
            if (done_bytes < static_cast<std::int64_t>(kProgressBytes)) continue;
            progress();
            done_bytes = 0;
        }
        progress();
        return ids_;
    }

    std::span<const std::uint8_t> reduce(const ClassScores& scores, const Progress& progress) {
        ids_.resize(static_cast<std::size_t>(scores.height * scores.width));
        const auto line_bytes = scores.classes * scores.width * static_cast<std::int64_t>(scores.dtype.bytes());
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
    Durability durability_;
    PalettePng png_;
    ClassArgmax argmax_;
    EnlargedSample enlarged_;
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
    return std::make_unique<MaskPng>(output, static_cast<int>(options.config->png_level), options.durability());
}

}  // namespace offramp
