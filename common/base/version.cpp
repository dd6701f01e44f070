#include "common/base/version.hpp"

namespace offramp {

std::string_view program_version() noexcept { return OFFRAMP_VERSION; }

}  // namespace offramp
