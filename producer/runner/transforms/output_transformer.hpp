#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/numerics/foreground_score.hpp"
#include "common/wire/slab_header.hpp"
#include "common/wire/tensor_spec.hpp"
#include "producer/device/device.hpp"
#include "producer/device/lending_pool.hpp"
#include "producer/egress/output_batch.hpp"
#include "producer/runner/transforms/picture_pixels.hpp"

namespace offramp {

// The transform of a model's outputs on the device, from ModelSettings.
struct TransformSettings {
    std::string transform = "none";                  // "none", "cast", "class-map", "low-res"
    std::string output_dtype = "auto";               // cast, low-res: "auto", "fp32", "fp16", "bf16"
    bool confidence = false;                         // class-map: a second output
    ForegroundScale foreground;                      // class-map: how to read an output of one channel
    std::optional<PixelRange> encoded;               // the result's pictures become pixels, for an encoder
    std::vector<std::vector<std::int64_t>> largest;  // Model::largest_samples()
};

// Connects model and egress: declares the transformed outputs, and puts the work for them on the compute stream.
//
//   none       float32 [B, C, S, S]          as they are: no work, no memory
//   cast       any float32 output            float16 or bfloat16, in the same shape and order
//   class-map  float32 [B, C, h, w], by e    "classes" uint8 [B, h*e, w*e]; with confidence "confidence" in the same
//   shape, both
//                                            named after their output ("aux.classes") when there are several. One
//                                            channel is the foreground's: class 1 from a threshold on
//   low-res    float32 [B, C, h, w], by e    as they are or cast, for consumers to enlarge
//
// Owns the memory of its outputs. Borrows the device. Thread: the inference thread.
// Errors: ConfigError, from the constructor, names the output or setting that does not fit and the accepted values.
class OutputTransformer {
  public:
    // `outputs` and `upsample_factor` are the model's, which was asked to omit its last enlargement if this transform
    // wants that.
    OutputTransformer(Device& device, const std::vector<TensorSpec>& outputs, std::uint32_t upsample_factor,
                      const TransformSettings& settings);

    // True if a transform starts from a model's outputs before its last enlargement.
    static bool wants_small_outputs(std::string_view transform) {
        return transform == "class-map" || transform == "low-res";
    }

    // For a full batch. Samples differ in shape as in Model::outputs().
    // Pictures for an encoder are as it leaves them.
    const std::vector<TensorSpec>& outputs() const { return pixels_ ? pixels_->encoded() : made_; }
    // True if apply() gives the pixels of pictures, which an encoder turns into outputs()[output].
    bool encodes(std::size_t output) const { return pixels_ && pixels_->encodes(output); }
    bool encodes_any() const { return pixels_.has_value(); }
    PixelRange pixel_range() const { return settings_.encoded.value_or(PixelRange{}); }
    // The most room that the outputs of which samples differ in shape take for one sample.
    std::size_t most_varying_bytes() const;
    OutputTransform transform() const { return transform_; }
    // The enlargement left to consumers: only in low-res; else 1.
    std::uint32_t upsample_factor() const { return transform_ == OutputTransform::LowRes ? upsample_factor_ : 1; }

    // Submits the work on one batch to the stream that computes `native`, always the same one. The results are complete
    // once that work is; their memory is reused, for work on the same stream, after their owners are dropped. Drops
    // `native` immediately: its memory is reused in the order of this stream, like LibTorch's, so it is not overwritten
    // before this work is done. Blocks: on the CPU, where memory has no such order, until the work is done. If the
    // scores of one channel are mapped, `outliers` gets the data for their review, valid once the work is done.
    std::vector<DeviceTensor> apply(Stream& compute, std::vector<DeviceTensor> native,
                                    std::vector<RowOutliers>& outliers);

  private:
    std::vector<DeviceTensor> transformed(Stream& compute, std::vector<DeviceTensor> native,
                                          std::vector<RowOutliers>& outliers);
    void plan_cast(const TensorSpec& output, DType type);
    void plan_class_map(const TensorSpec& output, const std::string& prefix);
    void check_fits(const std::vector<TensorSpec>& outputs) const;
    // `index`: of made_, where samples of it differ in shape.
    std::size_t most_bytes_of_sample(std::size_t index) const;
    // Buffers are made on demand; an owner drops a buffer only after submitting all work on it.
    void add_pool(const std::string& output);
    // With room for the whole output, or for `bytes`.
    DeviceTensor take_made(std::size_t index) {
        return take_made(index, made_[index].elements() * made_[index].dtype.bytes());
    }
    DeviceTensor take_made(std::size_t index, std::size_t bytes);
    void cast(Stream& compute, const DeviceTensor& from, std::vector<DeviceTensor>& made);
    void map_classes(Stream& compute, const DeviceTensor& from, std::vector<DeviceTensor>& made,
                     std::vector<RowOutliers>& outliers);

    Device& device_;
    TransformSettings settings_;
    OutputTransform transform_ = OutputTransform::None;
    std::uint32_t upsample_factor_ = 1;
    std::vector<TensorSpec> made_;
    // Memory that grows with the largest batch, if batches differ in shape.
    struct Growing {
        std::unique_ptr<DeviceBuffer> buffer;
        std::string purpose;
    };
    std::vector<LendingPool<Growing>> pools_;  // one for each of made_; none if the outputs are unchanged
    LendingPool<DeviceBuffer> outliers_;       // for the rows of a full batch
    std::optional<PicturePixels> pixels_;      // none: no pictures are encoded
};

}  // namespace offramp
