#include "tests/contract/device/device_contract.hpp"

namespace offramp {
std::vector<std::string> devices_under_test() { return {"cpu"}; }
}  // namespace offramp
