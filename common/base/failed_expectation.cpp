#include <cstdio>
#include <cstdlib>

#include "common/base/error.hpp"

namespace offramp {

// A separate object file, because libofframp.so links another one instead (common/abi/failed_expectation.cpp).
void fail_expectation(std::string_view contract, std::source_location where) {
    std::fprintf(stderr, "%s:%u: %s: broken contract: %.*s\n", where.file_name(), where.line(), where.function_name(),
                 static_cast<int>(contract.size()), contract.data());
    std::abort();
}

}  // namespace offramp
