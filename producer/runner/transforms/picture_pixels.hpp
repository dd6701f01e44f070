#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/numerics/pixel_range.hpp"
#include "common/wire/tensor_spec.hpp"
#include "producer/device/device.hpp"
#include "producer/device/lending_pool.hpp"
#include "producer/egress/output_batch.hpp"

namespace offramp {

// Turns outputs of pictures into 8-bit pixels on the device, for an encoder: those that processor `image` would make of
// them. Other outputs stay.
//
// Owns the memory of the pixels. Borrows the device. Thread: the inference thread. Errors: ConfigError, from the
// constructor: no output has pictures, or one has pictures that JPEG cannot store.
class PicturePixels {
  public:
    // `outputs`: of a full batch.
    PicturePixels(Device& device, const std::vector<TensorSpec>& outputs, PixelRange range);

    // As slabs get them: encoded pictures are uint8 [B, ?].
    const std::vector<TensorSpec>& encoded() const { return encoded_; }
    bool encodes(std::size_t output) const { return plans_[output].has_value(); }
    // More than a file of this output has.
    std::size_t most_bytes(std::size_t output) const { return plans_[output]->most_bytes; }

    // Puts the work on the stream that computes `outputs`, and replaces the pictures by their pixels, uint8 in the same
    // shape and order. `outliers` gets an entry for each of them that has numbers, valid once the work is done: a
    // number of each row that has no pixel, or 0.
    void apply(Stream& compute, std::vector<DeviceTensor>& outputs, std::vector<RowOutliers>& outliers);

  private:
    struct Plan {
        std::size_t most_bytes = 0;
        std::unique_ptr<LendingPool<DeviceBuffer>> pixels, outliers;  // null: the output has pixels
    };
    void plan(Device& device, const TensorSpec& output);

    Device& device_;
    PixelRange range_;
    std::vector<TensorSpec> encoded_;
    std::vector<std::optional<Plan>> plans_;  // none: the output stays
};

// True if each pixel's channels are side by side. `pictures`: as from PicturePixels::apply().
bool is_channels_last(const TensorSpec& pictures);

}  // namespace offramp
