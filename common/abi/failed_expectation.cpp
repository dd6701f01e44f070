#include <string>

#include "common/base/error.hpp"

namespace offramp {

// A library must not end its caller's process: libofframp.so throws, while a program aborts
// (common/base/failed_expectation.cpp).
void fail_expectation(std::string_view contract, std::source_location where) {
    throw Error(ErrorKind::Internal, "a bug in Offramp: " + std::string(contract) + ", at " + where.file_name() + ":" +
                                         std::to_string(where.line()));
}

}  // namespace offramp
