#pragma once

#include <vector>

#include <offramp.h>
#include "common/wire/slab_view.hpp"

namespace offramp {

// Presents a slab as the C ABI's structs, whose memory it reuses for the next slab. Borrows: the slab passed to of(),
// until the next call. Thread: one. Blocks: never. Errors: none.
class SlabForC {
  public:
    const offramp_slab& of(const SlabContents& slab);

  private:
    void describe_rows(const SlabContents& slab);

    std::vector<offramp_sample> samples_;
    std::vector<offramp_tensor> tensors_;
    std::vector<offramp_row> rows_;     // of tensors that vary
    std::vector<std::int64_t> shapes_;  // of rows_
    offramp_slab slab_{};
};

}  // namespace offramp
