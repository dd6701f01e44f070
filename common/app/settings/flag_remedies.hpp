#pragma once

#include "common/base/remedy.hpp"

namespace offramp {

// Remedies in terms of the programs' flags, for put_remedies(). A test compares the flags with the settings.
const char* flag_remedy(Remedy which) noexcept;

}  // namespace offramp
