#pragma once

#include <vector>

#include <offramp.h>
#include "common/wire/slab_view.hpp"

namespace offramp {

// A slab as the C ABI's structs show it. Its memory serves the next slab, too. Borrows: the slab that of() was given,
// until the next call. Thread: one. Blocks: never. Errors: none.
class SlabForC {
  public:
    const offramp_slab& of(const SlabContents& slab);

  private:
    std::vector<offramp_sample> samples_;
    std::vector<offramp_tensor> tensors_;
    offramp_slab slab_{};
};

}  // namespace offramp
