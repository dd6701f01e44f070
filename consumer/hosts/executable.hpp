#pragma once

#include <offramp_processor.h>

namespace offramp {

// Runs a custom program for `--processor exec:COMMAND`: started once per consumer, it gets each slab in one
// line of JSON and answers in lines of JSON (launch/guide/processors.md). A program that dies fails its slab, and is
// started again for the next one.
const offramp_processor& executable_processor();

}  // namespace offramp
