#pragma once

namespace offramp {

// How a run treats the completed work in an output folder's checkpoint. Independent of RunStart: a new run may resume
// another one's work, and a recovered run may have none.
enum class EarlierWork {
    DoneAgain,  // the run starts over; the checkpoint stays until this run has completed an item
    Resumed,    // not processed again
    Recovered,  // the same, and the work is this run's own: its producer died after it had published something
};

}  // namespace offramp
