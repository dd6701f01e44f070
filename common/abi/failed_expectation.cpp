#include <string>

#include "common/base/error.hpp"

namespace offramp {

// In somebody else's process: stands in libofframp.so in place of what ends a program
// (common/base/failed_expectation.cpp).
void fail_expectation(std::string_view contract, std::source_location where) {
    throw Error(ErrorKind::Internal, "a fault of ours: " + std::string(contract) + ", at " + where.file_name() + ":" +
                                         std::to_string(where.line()));
}

}  // namespace offramp
