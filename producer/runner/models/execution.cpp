#include "producer/runner/models/execution.hpp"

#include <ATen/Context.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/ones.h>
#include <ATen/Parallel.h>
#include <torch/version.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <new>

#include "common/base/error.hpp"
#include "common/base/scarcity.hpp"
#include "common/wire/shape_text.hpp"
#include "common/wire/tensor_spec.hpp"

#ifdef OFFRAMP_TORCH_HAS_CUDA
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAStream.h>
#endif

namespace offramp {
namespace {

struct KnownType {
    DType dtype;
    at::ScalarType type;
};

constexpr std::string_view kOfTorchScript = "in the TorchScript interpreter";

constexpr std::array<KnownType, 10> kTypes{{{kFloat32, at::kFloat},
                                            {kBFloat16, at::kBFloat16},
                                            {kFloat16, at::kHalf},
                                            {kFloat64, at::kDouble},
                                            {kInt64, at::kLong},
                                            {kInt32, at::kInt},
                                            {kInt16, at::kShort},
                                            {kInt8, at::kChar},
                                            {kUInt8, at::kByte},
                                            {kBool, at::kBool}}};

std::string gibibytes(std::size_t bytes) {
    const std::size_t hundredths = bytes / (std::size_t{1} << 20) * 100 / 1024;
    return std::to_string(hundredths / 100) + (hundredths % 100 < 10 ? ".0" : ".") + std::to_string(hundredths % 100) +
           " GiB";
}

void check_options(const ModelOptions& options) {
    if (options.precision != "fp32" && options.precision != "tf32" && options.precision != "bf16")
        throw ConfigError("unknown precision '" + options.precision + "'", "Known: fp32, tf32, bf16");
    if (options.memory_format != "contiguous" && options.memory_format != "channels-last")
        throw ConfigError("unknown memory format '" + options.memory_format + "'", "Known: contiguous, channels-last");
    if (options.batch == 0) throw ConfigError("the batch size is 0", "Give --batch 1 or more");
    if (options.precision == "tf32" && options.device_index < 0)
        throw ConfigError("the precision tf32 needs a GPU, but this model runs on the CPU",
                          "Use --precision fp32, or bf16");
}

at::Device choose_device(const ModelOptions& options) {
    if (options.device_index < 0) return at::kCPU;
    const std::string wanted =
        "the model '" + options.name + "' is to run on cuda:" + std::to_string(options.device_index);
#ifdef OFFRAMP_TORCH_HAS_CUDA
    const c10::DeviceIndex devices = c10::cuda::device_count();
    if (options.device_index < devices) return {at::kCUDA, static_cast<c10::DeviceIndex>(options.device_index)};
    int driver = 0;
    (void)cudaDriverGetVersion(&driver);
    throw ConfigError(wanted + ", but LibTorch " TORCH_VERSION " sees " + std::to_string(devices) +
                          " CUDA devices; driver for CUDA " + std::to_string(driver / 1000) + "." +
                          std::to_string(driver % 1000 / 10) + " found, CUDA " + std::to_string(CUDART_VERSION / 1000) +
                          "." + std::to_string(CUDART_VERSION % 1000 / 10) + " needed",
                      "Update the NVIDIA driver, choose another --device, or run with --device cpu",
                      ErrorKind::DeviceUnsupported);
#else
    throw ConfigError(wanted + ", but this LibTorch " TORCH_VERSION " was built without CUDA",
                      "Build against a LibTorch with CUDA, or run with --device cpu", ErrorKind::DeviceUnsupported);
#endif
}

// Starts OpenMP's threads now: OpenMP ends the process if it gets none later. They belong to this thread, which
// computes.
void start_threads() {
    const int threads = at::get_num_threads();
    if (threads < 2) return;
    require_threads(static_cast<unsigned>(threads - 1));
    constexpr std::int64_t kElementsOfAThread = 65536;  // more than LibTorch assigns to one thread
    at::ones({threads * kElementsOfAThread}).add_(1);
}

void set_switches(const ModelOptions& options) {
    at::Context& context = at::globalContext();
    const bool tf32 = options.precision == "tf32";
    context.setAllowTF32CuBLAS(tf32);
    context.setAllowTF32CuDNN(tf32);
    context.setBenchmarkCuDNN(!options.deterministic);
    context.setDeterministicCuDNN(options.deterministic);
    context.setDeterministicAlgorithms(options.deterministic, false);
    // Every byte is written later, so filling fresh memory would only cost a pass over every output.
    context.setDeterministicFillUninitializedMemory(false);
    // cuBLAS is deterministic only with a fixed workspace, and reads this when its handle is made.
    if (options.deterministic) ::setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", 0);
}

#ifdef OFFRAMP_TORCH_HAS_CUDA
// A sticky error stays after it was read once; any other is cleared.
bool device_is_broken(std::size_t& free_bytes, std::size_t& total_bytes) {
    (void)cudaGetLastError();
    return cudaMemGetInfo(&free_bytes, &total_bytes) != cudaSuccess;
}

constexpr const char* kStartAgain = "Start again; if it recurs, look for Xid lines in the kernel's log";
std::terminate_handler before_ours = nullptr;

// A compiled model's destructors throw if the GPU is lost, which terminates the process: with the GPU's exit code,
// then.
[[noreturn]] void end_process() {
    std::size_t free_bytes = 0;
    std::size_t total_bytes = 0;
    if (!device_is_broken(free_bytes, total_bytes)) {
        before_ours();
        std::abort();
    }
    std::string reason;
    try {
        if (const std::exception_ptr error = std::current_exception()) std::rethrow_exception(error);
    } catch (const std::exception& error) {
        reason = ": " + first_line(error.what());
    } catch (...) {
    }
    // not spdlog, whose library of formats is not LibTorch's
    std::fprintf(stderr, "the GPU's context is lost%s. %s\n", reason.c_str(), kStartAgain);
    std::_Exit(to_int(ErrorKind::DeviceBroken));
}
#endif

// Whether CUDA or one of its libraries reports the error: it may be about earlier work.
bool is_of_device(const std::string& text) {
    static constexpr const char* kReports[] = {"CUDA error", "CUDA driver error", "_STATUS_", "cuFFT error"};
    return std::ranges::any_of(kReports, [&](const char* report) { return text.find(report) != std::string::npos; });
}

// Extracts the amount from LibTorch's "CUDA out of memory. Tried to allocate 1.31 GiB. GPU 0 has ...", or returns
// nothing.
std::string amount_asked_for(const std::string& text) {
    static constexpr std::string_view kBefore = "Tried to allocate ";
    const std::size_t begin = text.find(kBefore);
    if (begin == std::string::npos) return "an unknown amount";
    const std::size_t end = text.find("iB", begin);
    return end == std::string::npos ? "an unknown amount"
                                    : text.substr(begin + kBefore.size(), end + 2 - begin - kBefore.size());
}

}  // namespace

at::ScalarType scalar_type(DType dtype) {
    const auto known = std::ranges::find(kTypes, dtype, &KnownType::dtype);
    expect(known != kTypes.end(), "a model's tensors are floats of 16 to 64 bits, integers, uint8 or bool");
    return known->type;
}

std::optional<DType> dtype_of(at::ScalarType type) {
    const auto known = std::ranges::find(kTypes, type, &KnownType::type);
    return known == kTypes.end() ? std::nullopt : std::optional(known->dtype);
}

std::string describe(const at::Tensor& tensor) {
    const auto dtype = dtype_of(tensor.scalar_type());
    return (dtype ? to_string(*dtype) : c10::toString(tensor.scalar_type())) + " " + shape_text(tensor.sizes());
}

std::string first_line(const std::string& text) {
    const std::size_t begin = std::min(text.find_first_not_of('\n'), text.size());
    return text.substr(begin, text.find('\n', begin) - begin);
}

std::string cause_in(const std::string& text) {
    if (text.find(kOfTorchScript) == std::string::npos) return first_line(text);
    // Headings are followed by lines of code, all indented, then the error, and perhaps its place in LibTorch.
    for (std::size_t begin = 0; begin < text.size();) {
        const std::size_t end = std::min(text.find('\n', begin), text.size());
        const std::string line = text.substr(begin, end - begin);
        const bool is_head =
            line.find(kOfTorchScript) != std::string::npos || line.starts_with("Traceback of TorchScript");
        if (!line.empty() && line.front() != ' ' && !is_head) return line;
        begin = end + 1;
    }
    return first_line(text);
}

Execution::Execution(const ModelOptions& options) : options_(options) {
    check_options(options);
    device_ = choose_device(options);
    if (options.precision == "bf16") compute_type_ = at::kBFloat16;
    if (options.memory_format == "channels-last") memory_format_ = at::MemoryFormat::ChannelsLast;
    set_switches(options);
#ifdef OFFRAMP_TORCH_HAS_CUDA
    if (on_cuda() && before_ours == nullptr) before_ours = std::set_terminate(end_process);
#endif
    start_threads();
}

Execution::Scope::Scope([[maybe_unused]] const Execution& execution) {
#ifdef OFFRAMP_TORCH_HAS_CUDA
    if (!execution.on_cuda()) return;
    const c10::DeviceIndex index = execution.device_.index();
    auto* const stream = static_cast<cudaStream_t>(execution.options_.stream);
    stream_.reset_stream(stream == nullptr ? c10::cuda::getDefaultCUDAStream(index)
                                           : c10::cuda::getStreamFromExternal(stream, index));
#endif
}

at::Tensor Execution::view(const void* data, const TensorSpec& spec) const {
    expect(data != nullptr, "the input's address is given");
    return at::for_blob(const_cast<void*>(data), at::IntArrayRef(spec.shape.data(), spec.dims))
        .strides(at::IntArrayRef(spec.strides.data(), spec.dims))
        .options(at::TensorOptions().dtype(scalar_type(spec.dtype)).device(device_))
        .target_device(device_)
        .make_tensor();
}

DeviceTensor Execution::hand_out(at::Tensor tensor, const TensorSpec& spec) {
    expect(tensor.scalar_type() == scalar_type(spec.dtype) &&
               std::ranges::equal(tensor.sizes(), std::span(spec.shape).first(spec.dims)) &&
               has_strides(tensor.strides(), spec),
           "an output matches outputs()");
    auto owner = std::make_shared<const at::Tensor>(std::move(tensor));
    const void* const data = owner->const_data_ptr();
    return {.spec = spec, .data = data, .owner = std::move(owner)};
}

std::string Execution::subject() const {
    return "the model '" + options_.name + "' with batch " + std::to_string(options_.batch);
}

void Execution::rethrow_as_error() const {
    try {
        throw;
    } catch (const Error&) {
        throw;
    } catch (const c10::Error& error) {
        fail(error.what_without_backtrace());
    } catch (const std::bad_alloc&) {
        throw Error(ErrorKind::System, subject() + " does not fit in this machine's memory", "Use a smaller --batch");
    } catch (const std::exception& error) {  // compiled models throw untyped exceptions
        fail(error.what());
    }
}

void Execution::require_device([[maybe_unused]] const std::string& whole_text) const {
#ifdef OFFRAMP_TORCH_HAS_CUDA
    if (!on_cuda()) return;
    std::size_t free_bytes = 0;
    std::size_t total_bytes = 0;
    if (device_is_broken(free_bytes, total_bytes))
        throw Error(ErrorKind::DeviceBroken,
                    subject() + " failed and its GPU's context is lost: " + cause_in(whole_text), kStartAgain);
    if (whole_text.find("out of memory") != std::string::npos)
        throw Error(ErrorKind::DeviceOutOfMemory,
                    subject() + " does not fit on the GPU: needed " + amount_asked_for(whole_text) + " more, free " +
                        gibibytes(free_bytes) + " of " + gibibytes(total_bytes),
                    "Use a smaller --batch, --image-size or fewer outputs in flight, --precision bf16, or a GPU with "
                    "more memory");
#endif
}

void Execution::fail(const std::string& whole_text) const {
    require_device(whole_text);
    const std::string what = subject();
    const std::string text = cause_in(whole_text);
    if (whole_text.find("can't allocate memory") != std::string::npos)
        throw Error(ErrorKind::System, what + " does not fit in this machine's memory: " + text,
                    "Use a smaller --batch or --image-size");
    const std::string found = (fed_.empty() ? "" : " on " + fed_) + ": " + text;
    const std::string in_torch = what + " failed in LibTorch " TORCH_VERSION + found;
    if (on_cuda() && is_of_device(whole_text)) throw Error(ErrorKind::Internal, in_torch);
    const std::string reason = "the model failed" + found;
    if (whole_text.find(kOfTorchScript) != std::string::npos)
        throw RefusedInput(ErrorKind::BadInput, what + " failed in its own code" + found, fix_ + "; or fix the model",
                           reason);
    throw RefusedInput(ErrorKind::Internal, in_torch, {}, reason);
}

}  // namespace offramp
