#include <string>

namespace offramp {

std::string device_under_test() { return "cuda"; }

}  // namespace offramp
