#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "common/app/images/geometry.hpp"
#include "common/app/settings/run_config.hpp"
#include "common/base/items.hpp"
#include "common/wire/tensor_spec.hpp"
#include "producer/runner/sources/batch_source.hpp"

namespace offramp {

// A place where a run's consumers join tiles (--tile), one per output that becomes masks.
struct StitchedOutput {
    std::string masks;     // the folder of the masks
    std::string canvases;  // the folder of working files
    std::string ending;    // follows the picture's key in a mask's name
};

// Empty if the run makes no masks of tiles. `outputs`: the tensors that consumers get.
std::vector<StitchedOutput> stitched_outputs(const RunConfig& config, std::span<const TensorSpec> outputs,
                                             std::uint32_t upsample_factor);

// Finds the completed tiles whose results are still in place. Either the picture's mask is there, or its working file
// has the mask's data for the tile; both must match the picture as it is now. A finished mask stays, even if its
// picture changed. Blocks: on the file system. Errors: SystemError.
class TilesInPlace {
  public:
    // Borrows the source, unless there are no outputs.
    TilesInPlace(const RunConfig& config, const BatchSource& source, std::vector<StitchedOutput> outputs);

    // Call it before consumers begin. Removes working files that they could not continue, and warns of tiles that must
    // be made again.
    ItemRanges of(const ItemRanges& done) const;
    // Call it when the work is done. Errors: Error with CannotWrite names tiles that were lost during the run.
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
};

}  // namespace offramp
