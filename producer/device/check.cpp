#include "producer/device/check.hpp"

#include "common/base/log.hpp"

namespace offramp {
namespace {

// A driver that is older than this number of an error has no words for it.
std::string_view said_by(driver::Result (*get)(driver::Result, const char**), driver::Result error) {
    const char* text = nullptr;
    return get(error, &text) == driver::kSuccess && text != nullptr ? text : "an error without a name";
}

}  // namespace

CudaCause cause_of(driver::Result error, std::string_view call) {
    return {std::string(call), std::string(said_by(driver::api().get_error_name, error)), error};
}

std::string describe(driver::Result error) {
    return describe(cause_of(error, {}), said_by(driver::api().get_error_string, error));
}

void check(driver::Result result, std::string_view call, std::source_location where) {
    if (result == driver::kSuccess) [[likely]]
        return;
    throw_cuda_error(cause_of(result, call), said_by(driver::api().get_error_string, result), where);
}

void log_unless_freed(driver::Result result, std::string_view call) noexcept {
    if (result == driver::kSuccess || result == driver::kDeinitialized) return;
    try {
        spdlog::error("{} failed while freeing: {}", call, describe(result));
    } catch (...) {
        // Nothing is left to report it with; a destructor must not throw.
    }
}

}  // namespace offramp
