#include "producer/runner/kernels/runtime_check.hpp"

namespace offramp {

CudaCause cause_of(cudaError_t error, std::string_view call) {
    return {std::string(call), cudaGetErrorName(error), static_cast<int>(error)};
}

std::string describe(cudaError_t error) { return describe(cause_of(error, {}), cudaGetErrorString(error)); }

void check(cudaError_t result, std::string_view call, std::source_location where) {
    if (result == cudaSuccess) [[likely]]
        return;
    static_cast<void>(cudaGetLastError());
    throw_cuda_error(cause_of(result, call), cudaGetErrorString(result), where);
}

}  // namespace offramp
