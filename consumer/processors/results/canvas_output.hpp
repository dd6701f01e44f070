#pragma once

#include <memory>

#include "consumer/processors/results/run_output.hpp"

namespace offramp {

// The working files of a run with --tile beside its masks: the canvases of pictures whose tiles are combined
// (segmentation/tile_canvas.hpp). They stay as long as the run can be continued. Its end removes those of complete
// masks; one of a picture with unreadable tiles is kept for --resume, which retries these, and is reported as a
// warning, also when a run is broken off. Errors: SystemError with CannotWrite.
std::unique_ptr<RunOutput> tile_canvases();

}  // namespace offramp
