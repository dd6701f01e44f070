#include "producer/device/context_guard.hpp"

#include "common/base/log.hpp"

namespace offramp {
namespace {

// An older driver has no text for newer error numbers.
std::string_view driver_text(driver::Result (*get)(driver::Result, const char**), driver::Result error) {
    const char* text = nullptr;
    return get(error, &text) == driver::kSuccess && text != nullptr ? text : "an error without a name";
}

}  // namespace

CudaCause cause_of(driver::Result error, std::string_view call) {
    return {std::string(call), std::string(driver_text(driver::api().get_error_name, error)), error};
}

std::string describe(driver::Result error) {
    return describe(cause_of(error, {}), driver_text(driver::api().get_error_string, error));
}

void check(driver::Result result, std::string_view call, std::source_location where) {
    if (result == driver::kSuccess) [[likely]]
        return;
    throw_cuda_error(cause_of(result, call), driver_text(driver::api().get_error_string, result), where);
}

void log_unless_freed(driver::Result result, std::string_view call) noexcept {
    if (result == driver::kSuccess || result == driver::kDeinitialized) return;
    try {
        spdlog::error("{} failed while freeing: {}", call, describe(result));
    } catch (...) {
        // It cannot be reported otherwise; a destructor must not throw.
    }
}

}  // namespace offramp
