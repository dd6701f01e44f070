#include <string>

namespace offramp {

std::string device_under_test() { return "cpu"; }

}  // namespace offramp
