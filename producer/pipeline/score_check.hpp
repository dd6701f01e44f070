#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/slab/foreground_score.hpp"
#include "producer/cuda/device.hpp"

namespace offramp {

// What the device found of a batch's scores that they cannot be (Stream::map_foreground): to be looked at once its work is done, before
// anybody gets the batch. Owns its part of the memory that the device writes to. Thread: any, one at a time.
class ScoreCheck {
  public:
    struct Output {
        std::string described;
        ForegroundScale scale;
        std::shared_ptr<DeviceBuffer> outliers;  // float [rows]
    };
    void add(Output output) { outputs_.push_back(std::move(output)); }
    bool empty() const { return outputs_.empty(); }

    // Errors: ConfigError names score, output and `item`, which the row is of.
    void look_at(std::size_t row, std::string_view item) const {
        for (const Output& output : outputs_) {
            const float outlier = reinterpret_cast<const float*>(output.outliers->data())[row];
            if (!output.scale.allows(outlier)) output.scale.refuse(outlier, output.described, item);
        }
    }

  private:
    std::vector<Output> outputs_;
};

}  // namespace offramp
