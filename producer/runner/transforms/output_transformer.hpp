#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/numerics/foreground_score.hpp"
#include "common/wire/slab_header.hpp"
#include "common/wire/tensor_spec.hpp"
#include "producer/device/device.hpp"
#include "producer/device/device_tensor.hpp"
#include "producer/device/lending_pool.hpp"
#include "producer/egress/row_outliers.hpp"

namespace offramp {

// What is done to a model's outputs on the device before they leave it, as ModelSettings says it.
struct TransformSettings {
    std::string transform = "none";     // "none", "cast", "class-map", "low-res"
    std::string output_dtype = "auto";  // cast, low-res: "auto", "fp32", "fp16", "bf16"
    bool confidence = false;            // class-map: a second output
    ForegroundScale foreground;         // class-map: how an output of one channel is read
};

// Stands between model and egress: states what the outputs become, and puts the work for it on the compute stream.
//
//   none       float32 [B, C, S, S]          as they are: no work, no memory
//   cast       any float32 output            float16 or bfloat16, in the same shape and order
//   class-map  float32 [B, C, h, w], by e    "classes" uint8 [B, h*e, w*e]; with confidence "confidence" in the same
//   shape, both
//                                            named after their output ("aux.classes") when there are several. One
//                                            channel is the foreground's: class 1 from a threshold on
//   low-res    float32 [B, C, h, w], by e    as they are or cast, for consumers to enlarge
//
// Owns the memory of what it makes. Borrows the device. Thread: the inference thread.
// Errors: ConfigError, from the constructor, names the output or setting that does not fit and what is accepted.
class OutputTransformer {
  public:
    // `outputs` and `upsample_factor` are the model's, which was asked to leave its enlargement out where this
    // transform wants it so.
    OutputTransformer(Device& device, const std::vector<TensorSpec>& outputs, std::uint32_t upsample_factor,
                      const TransformSettings& settings);

    // Whether a transform starts from what a model has before its last enlargement.
    static bool wants_small_outputs(std::string_view transform) {
        return transform == "class-map" || transform == "low-res";
    }

    // Of a full batch.
    const std::vector<TensorSpec>& outputs() const { return made_; }
    OutputTransform transform() const { return transform_; }
    // What consumers are to enlarge by: low-res only; else 1.
    std::uint32_t upsample_factor() const { return transform_ == OutputTransform::LowRes ? upsample_factor_ : 1; }

    // Submits the work on one batch to the stream that `native` is computed on, always the same one. What is given back
    // is complete once that work is; its memory is used again, for work on the same stream, when its owners are
    // dropped. Lets go of `native` at once: its memory is used again in the order of this stream, as LibTorch's is, so
    // that nobody writes to it before this work is done. Blocks: on the CPU, where memory has no such order, until the
    // work is done. Where the scores of one channel are mapped, `outliers` gets what they are to be looked at with,
    // once the work is done.
    std::vector<DeviceTensor> apply(Stream& compute, std::vector<DeviceTensor> native,
                                    std::vector<RowOutliers>& outliers);

  private:
    void plan_cast(const TensorSpec& output, DType type);
    void plan_class_map(const TensorSpec& output, const std::string& prefix);
    void check_fits(const std::vector<TensorSpec>& outputs) const;
    // Buffers are made as they are needed; whoever drops one has no work left to submit that touches it.
    void add_pool(std::size_t bytes, const std::string& output);
    DeviceTensor take_made(std::size_t index);
    void cast(Stream& compute, const DeviceTensor& from, std::vector<DeviceTensor>& made);
    void map_classes(Stream& compute, const DeviceTensor& from, std::vector<DeviceTensor>& made,
                     std::vector<RowOutliers>& outliers);

    Device& device_;
    TransformSettings settings_;
    OutputTransform transform_ = OutputTransform::None;
    std::uint32_t upsample_factor_ = 1;
    std::vector<TensorSpec> made_;
    std::vector<LendingPool<DeviceBuffer>> pools_;  // one for each of made_; none when the outputs stay as they are
    LendingPool<DeviceBuffer> outliers_;            // for the rows of a full batch
};

}  // namespace offramp
