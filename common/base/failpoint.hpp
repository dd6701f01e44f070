#pragma once

namespace offramp {

// Marks a step at which tests can make this process die, stop, exit or fail. Crashes hurt most between two steps of a
// change. A library that only tests preload (tests/support/failpoints) decides what happens at a failpoint, so tests
// use the same programs as users. Otherwise a failpoint costs one check of a null pointer. `name`: a literal,
// "room.step", unique in the sources. Thread: any. Blocks and errors: as the test requests.
void failpoint(const char* name);

}  // namespace offramp
