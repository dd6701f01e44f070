#pragma once

#include <memory>

#include "consumer/processors/results/run_output.hpp"

namespace offramp {

// What a run with --tile works on beside its masks: the canvases of pictures whose tiles are put together
// (segmentation/tile_canvas.hpp). They stay as long as the run can be continued. At its end those of whole masks go;
// one of a picture that lacks tiles, which could not be read, is kept for --resume, which tries these again, and is
// told as a warning, as it is where a run is broken off. Errors: SystemError with CannotWrite.
std::unique_ptr<RunOutput> tile_canvases();

}  // namespace offramp
