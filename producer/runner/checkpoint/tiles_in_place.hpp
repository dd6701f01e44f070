#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "common/base/item_ranges.hpp"
#include "common/images/tiling.hpp"
#include "common/settings/run_config.hpp"
#include "common/wire/tensor_spec.hpp"
#include "producer/runner/sources/batch_source.hpp"

namespace offramp {

// Where a run's consumers put tiles together (--tile), one of each output that becomes masks.
struct StitchedOutput {
    std::string masks;     // the folder
    std::string canvases;  // the folder of working files
    std::string ending;    // of a mask's name, behind the picture's key
};

// None where the run makes no masks of tiles. `outputs`: what consumers get. The output's next place is that of the
// time of the call.
std::vector<StitchedOutput> stitched_outputs(const RunConfig& config, std::span<const TensorSpec> outputs,
                                             std::uint32_t upsample_factor);

// Of tiles that a checkpoint calls done, those that are whole in their place: the picture's mask is there, or its
// working file has what the mask needs of the tile, and both are of the picture as it is now. A finished mask stays,
// whatever became of its picture. Blocks: on the file system. Errors: SystemError.
class TilesInPlace {
  public:
    // Borrows the source, unless there are no outputs.
    TilesInPlace(const RunConfig& config, const BatchSource& source, std::vector<StitchedOutput> outputs);

    // Before consumers begin: removes working files that they could not go on with, and warns of what is made again.
    ItemRanges of(const ItemRanges& done) const;
    // When all is done. Errors: Error with CannotWrite names what was lost while the run was under way.
    void require(const ItemRanges& done) const;

  private:
    struct Picture;
    enum class Look { AtTheBeginning, AtTheEnd };
    template <class Work>
    void for_each_picture(const ItemRanges& done, const Work& work) const;
    std::vector<std::uint64_t> lost_of(const Picture& picture, Look look) const;

    const BatchSource& source_;
    const std::vector<StitchedOutput> outputs_;
    TileSize size_;
    ItemRange share_;
    bool has_shard_ = false;
    bool replaces_ = false;  // a mask without a working file may be an earlier run's
};

}  // namespace offramp
