#pragma once

namespace offramp {

// Marks a step at which tests let this process die, stop, end or fail: the states between two steps of a change are
// where crashes hurt. Outside tests it is one test of a null pointer: what happens at a failpoint is decided by a
// library that only tests preload (tests/support/failpoints), and the programs that are tested so are the programs that
// users run. `name`: a literal, "room.step", unique in the sources. Thread: any. Blocks and errors: as the test has
// asked.
void failpoint(const char* name);

}  // namespace offramp
