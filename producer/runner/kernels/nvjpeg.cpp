#include "producer/runner/kernels/nvjpeg.hpp"

#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <filesystem>
#include <string_view>

#include "common/base/error.hpp"
#include "producer/device/cuda_failure.hpp"

namespace offramp {
namespace {

const std::string kFix =
    "Install it beside PyTorch (pip install nvidia-nvjpeg), or add the CUDA Toolkit's library folder to "
    "LD_LIBRARY_PATH; or leave --decode and --encode out";

// The version that goes with the CUDA runtime: a wheel puts both into one folder.
void* open_library() {
    const std::string name = "libnvjpeg.so." + std::to_string(CUDART_VERSION / 1000);
    if (void* const library = ::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
    const std::string problem = ::dlerror();
    Dl_info runtime{};
    if (::dladdr(reinterpret_cast<const void*>(&::cudaRuntimeGetVersion), &runtime) != 0 &&
        runtime.dli_fname != nullptr) {
        const std::filesystem::path beside = std::filesystem::path(runtime.dli_fname).parent_path() / name;
        if (void* const library = ::dlopen(beside.c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
    }
    throw ConfigError("nvJPEG cannot be opened: " + problem, kFix);
}

NvJpeg find_functions() {
    void* const library = open_library();
    NvJpeg found{};
    const auto find = [&]<class Function>(Function& function, const char* name) {
        function = reinterpret_cast<Function>(::dlsym(library, name));
        if (function == nullptr) throw ConfigError(std::string("nvJPEG lacks the function ") + name, kFix);
    };
    find(found.create, "nvjpegCreateEx");
    find(found.destroy, "nvjpegDestroy");
    find(found.property, "nvjpegGetProperty");
    find(found.create_state, "nvjpegJpegStateCreate");
    find(found.destroy_state, "nvjpegJpegStateDestroy");
    find(found.prepare, "nvjpegDecodeBatchedInitialize");
    find(found.decode, "nvjpegDecodeBatched");
    find(found.create_encoder, "nvjpegEncoderStateCreate");
    find(found.destroy_encoder, "nvjpegEncoderStateDestroy");
    find(found.create_encoder_params, "nvjpegEncoderParamsCreate");
    find(found.destroy_encoder_params, "nvjpegEncoderParamsDestroy");
    find(found.set_quality, "nvjpegEncoderParamsSetQuality");
    find(found.set_sampling, "nvjpegEncoderParamsSetSamplingFactors");
    find(found.encode, "nvjpegEncodeImage");
    find(found.retrieve, "nvjpegEncodeRetrieveBitstreamDevice");
    found.engines = reinterpret_cast<decltype(found.engines)>(::dlsym(library, "nvjpegGetHardwareDecoderInfo"));
    return found;
}

}  // namespace

const NvJpeg& NvJpeg::open() {
    static const NvJpeg calls = find_functions();
    return calls;
}

std::string NvJpeg::version() const {
    int major = 0, minor = 0;
    property(MAJOR_VERSION, &major);
    property(MINOR_VERSION, &minor);
    return std::to_string(major) + "." + std::to_string(minor);
}

std::string NvJpeg::describe(nvjpegStatus_t status) {
    constexpr std::string_view kNames[] = {"SUCCESS",
                                           "NOT_INITIALIZED",
                                           "INVALID_PARAMETER",
                                           "BAD_JPEG",
                                           "JPEG_NOT_SUPPORTED",
                                           "ALLOCATOR_FAILURE",
                                           "EXECUTION_FAILED",
                                           "ARCH_MISMATCH",
                                           "INTERNAL_ERROR",
                                           "IMPLEMENTATION_NOT_SUPPORTED",
                                           "INCOMPLETE_BITSTREAM"};
    const auto number = static_cast<std::size_t>(status);
    return "NVJPEG_STATUS_" + std::string(number < std::size(kNames) ? kNames[number] : "UNKNOWN") + " (" +
           std::to_string(number) + ")";
}

void NvJpeg::refuse(nvjpegStatus_t status, const std::string& problem, const std::string& flag) {
    if (status == NVJPEG_STATUS_ALLOCATOR_FAILURE)
        throw CudaError(ErrorKind::DeviceOutOfMemory, problem + ": nvJPEG has no memory on it",
                        "Leave " + flag + " out, or give a smaller --batch");
    throw ConfigError(problem + ": " + describe(status), "Leave " + flag + " out, so that the CPU does it");
}

}  // namespace offramp
