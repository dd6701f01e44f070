// The program offramp-consumer as a shared object for an interpreter, so that processors in its language run in the
// same process.

#include <offramp_processor.h>
#include "consumer/worker/run_consumer.hpp"

// Executes a consumer's command line; returns its exit code. `python`: creates `--processor python:...`; outlives the
// call. Thread: the process's first; call it before other threads start, because it blocks signals for those that
// follow.
extern "C" __attribute__((visibility("default"))) int offramp_worker_main(int argc, const char* const* argv,
                                                                          const offramp_processor* python) {
    return offramp::run_consumer(argc, argv, offramp::own_processors(python));
}
