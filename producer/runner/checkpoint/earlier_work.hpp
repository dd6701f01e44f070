#pragma once

namespace offramp {

// What becomes of the work that an output folder's checkpoint says is done. Not whether the run itself is begun or
// recovered (RunStart): a run that begins may resume another one's work, and one that is recovered may have none.
enum class EarlierWork {
    DoneAgain,  // by a run that starts over; the checkpoint stays until this one has done something
    Resumed,    // and is not done again
    Recovered,  // the same, and it is this very run's, whose producer died after it had published something
};

}  // namespace offramp
