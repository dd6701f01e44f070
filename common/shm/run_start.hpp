#pragma once

namespace offramp {

// How a producer starts its run. What a predecessor left in the run's directory, its memory and its name is replaced
// by a run that is begun, and stays and is gone on with where a dead producer's run is recovered.
enum class RunStart { Begun, Recovered };

}  // namespace offramp
