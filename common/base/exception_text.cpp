#include "common/base/exception_text.hpp"

namespace offramp {

std::string exception_text(const std::exception_ptr& error) {
    try {
        std::rethrow_exception(error);
    } catch (const std::exception& problem) {
        return problem.what();
    } catch (...) {
        return "an exception of an unknown kind";
    }
}

}  // namespace offramp
