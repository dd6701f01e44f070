#pragma once

#include <memory>
#include <string>

#include "producer/device/device.hpp"

namespace offramp {

// Forwards to a real device but leaves out one of the two waits that the egress depends on. It proves that the test,
// which sees no mismatch with the real device, would see one.
enum class Fault {
    None,
    DoneTooEarly,       // a wait for an event returns immediately: slabs are published while still being copied
    ComputeNotAwaited,  // the egress stream does not wait for the event behind the outputs
};
std::unique_ptr<Device> make_faulty_device(std::unique_ptr<Device> real, Fault fault);

}  // namespace offramp
