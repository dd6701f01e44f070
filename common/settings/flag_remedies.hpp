#pragma once

#include "common/base/remedy.hpp"

namespace offramp {

// What the users of the programs can do, by flags: for put_remedies(). A test compares the flags with the settings.
const char* flag_remedy(Remedy which) noexcept;

}  // namespace offramp
