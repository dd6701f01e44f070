#pragma once

namespace offramp {

// Lets this process open as many descriptors as the system allows it to. Where it may not, it stays with what it has.
void raise_descriptor_limit() noexcept;

}  // namespace offramp
