#pragma once

#include <memory>
#include <string>

#include "producer/device/device.hpp"

namespace offramp {

// A device that leaves out one of the two waits on which the egress rests; everything else is the real one's. It shows
// that the test which sees no mismatch with the real device would see them.
enum class Fault {
    None,
    DoneTooEarly,       // waiting for an event returns at once: slabs are published while they are still being copied
    ComputeNotAwaited,  // the egress stream does not wait for the event behind the outputs
};
std::unique_ptr<Device> make_faulty_device(std::unique_ptr<Device> real, Fault fault);

}  // namespace offramp
