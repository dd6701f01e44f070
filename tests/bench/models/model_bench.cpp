#include <ATen/core/Tensor.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/randn.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <chrono>
#include <CLI/CLI.hpp>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <optional>
#include <thread>

#ifdef OFFRAMP_TORCH_HAS_CUDA
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAStream.h>
#endif

#include "common/base/error.hpp"
#include "producer/runner/models/model_library.hpp"

// offramp-model-bench: a model alone, as fast as it goes: the input lies on the device, the outputs are
// dropped there.
//   offramp-model-bench --device 0 --batch 64 --image-size 512 --precision bf16 --memory-format channels-last
namespace {

using offramp::DeviceTensor;
using offramp::Model;
using offramp::ModelOptions;
using Clock = std::chrono::steady_clock;

struct Settings {
    ModelOptions options{.name = "deeplabv3-resnet50"};
    std::string module;
    int warm_up = 5;
    int batches = 20;
    int in_flight = 2;  // outputs kept alive, as the egress keeps them
    bool compares = false;
};

Settings read(int argc, char** argv) {
    Settings settings;
    CLI::App app("Runs a model alone and prints its batches per second");
    app.add_option("--model", settings.options.name)->capture_default_str();
    app.add_option("--module", settings.module, "libofframp_models.so; default: ../lib beside this program");
    app.add_option("--weights", settings.options.weights);
    app.add_option("--device", settings.options.device_index, "CUDA device, or -1 for the CPU")->capture_default_str();
    app.add_option("--batch", settings.options.batch)->capture_default_str();
    app.add_option("--image-size", settings.options.image_size)->capture_default_str();
    app.add_option("--precision", settings.options.precision)->capture_default_str();
    app.add_option("--memory-format", settings.options.memory_format)->capture_default_str();
    app.add_flag("--leave-out-enlargement", settings.options.leave_out_enlargement,
                 "Outputs before a last enlargement");
    app.add_flag("--deterministic", settings.options.deterministic);
    app.add_flag("!--no-cuda-graphs", settings.options.cuda_graphs, "Launch every kernel of a small model");
    app.add_option("--warm-up", settings.warm_up)->capture_default_str()->check(CLI::Range(1, 1'000'000));
    app.add_option("--batches", settings.batches)->capture_default_str()->check(CLI::Range(1, 1'000'000));
    app.add_option("--in-flight", settings.in_flight)->capture_default_str()->check(CLI::Range(1, 64));
    app.add_flag("--compare", settings.compares,
                 "Also run one batch on the CPU in fp32 and print the largest difference");
    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
        std::exit(app.exit(error) == 0 ? 0 : to_int(offramp::ErrorKind::Usage));
    }
    return settings;
}

std::string cpu_name() {
    std::ifstream cpus("/proc/cpuinfo");
    for (std::string line; std::getline(cpus, line);)
        if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
    return "unknown CPU";
}

// The device's side of the measurement. On the CPU run() has finished when it returns.
class Machine {
  public:
    explicit Machine(ModelOptions& options) : index_(options.device_index) {
#ifdef OFFRAMP_TORCH_HAS_CUDA
        if (index_ < 0) return;
        stream_ = c10::cuda::getStreamFromPool(/*isHighPriority=*/false, static_cast<c10::DeviceIndex>(index_));
        options.stream = stream_->stream();
#endif
    }

    void wait() const {
#ifdef OFFRAMP_TORCH_HAS_CUDA
        if (stream_) stream_->synchronize();
#endif
    }

    at::Device device() const {
        return index_ < 0 ? at::Device(at::kCPU) : at::Device(at::kCUDA, static_cast<c10::DeviceIndex>(index_));
    }

    std::string name() const {
#ifdef OFFRAMP_TORCH_HAS_CUDA
        cudaDeviceProp properties{};
        if (index_ >= 0 && cudaGetDeviceProperties(&properties, index_) == cudaSuccess) return properties.name;
#endif
        return cpu_name() + ", " + std::to_string(std::thread::hardware_concurrency()) + " threads";
    }

    // Payload-sized requests that went past LibTorch's cache to the driver.
    std::int64_t driver_allocations() const {
#ifdef OFFRAMP_TORCH_HAS_CUDA
        if (stream_)
            return c10::cuda::CUDACachingAllocator::getDeviceStats(static_cast<c10::DeviceIndex>(index_))
                .num_device_alloc;
#endif
        return 0;
    }

  private:
    int index_;
#ifdef OFFRAMP_TORCH_HAS_CUDA
    std::optional<c10::cuda::CUDAStream> stream_;
#endif
};

double seconds(Clock::duration duration) { return std::chrono::duration<double>(duration).count(); }

std::vector<float> on_host(const DeviceTensor& tensor, const at::Device& device) {
    const at::Tensor copy =
        at::from_blob(const_cast<void*>(tensor.data), at::IntArrayRef(tensor.spec.shape.data(), tensor.spec.dims),
                      at::TensorOptions().dtype(at::kFloat).device(device))
            .cpu();
    return {copy.const_data_ptr<float>(), copy.const_data_ptr<float>() + copy.numel()};
}

// `found` against the same weights and input on the CPU in fp32.
void compare(const offramp::ModelLibrary& library, ModelOptions options, const at::Tensor& input,
             const std::vector<float>& found) {
    options.device_index = -1;
    options.stream = nullptr;
    options.precision = "fp32";
    options.memory_format = "contiguous";
    const std::unique_ptr<Model> reference = library.make(options);
    const at::Tensor host_input = input.cpu();
    const std::vector<float> expected = on_host(reference->run(host_input.const_data_ptr()).front(), at::kCPU);
    double difference = 0;
    double largest = 0;
    for (std::size_t i = 0; i < expected.size(); ++i) {
        difference = std::max(difference, std::abs(static_cast<double>(expected[i]) - static_cast<double>(found[i])));
        largest = std::max(largest, std::abs(static_cast<double>(expected[i])));
    }
    std::printf("largest difference from fp32 on the CPU: %.2e of the largest number, %.3g\n", difference / largest,
                largest);
}

void measure(Settings& settings) {
    const Machine machine(settings.options);
    const offramp::ModelLibrary library = offramp::ModelLibrary::open(settings.module);
    const Clock::time_point started = Clock::now();
    const std::unique_ptr<Model> model = library.make(settings.options);
    const offramp::TensorSpec spec = model->input().tensor;
    const at::Tensor input = at::randn(at::IntArrayRef(spec.shape.data(), spec.dims)).to(machine.device());
    std::vector<std::vector<DeviceTensor>> in_flight(static_cast<std::size_t>(settings.in_flight));
    std::size_t next = 0;
    const auto run = [&] {
        in_flight[next] = model->run(input.const_data_ptr());
        next = (next + 1) % in_flight.size();
    };
    const Clock::time_point made = Clock::now();
    run();
    machine.wait();
    const Clock::time_point first_done = Clock::now();
    for (int i = 1; i < settings.warm_up; ++i) run();
    machine.wait();
    const std::int64_t allocations = machine.driver_allocations();
    const Clock::time_point begin = Clock::now();
    for (int i = 0; i < settings.batches; ++i) run();
    const Clock::time_point submitted = Clock::now();
    machine.wait();
    const double took = seconds(Clock::now() - begin);
    const ModelOptions& o = settings.options;
    std::printf("%s, LibTorch %s\n%s\nbatch %u, image size %u, %s, %s, output %s%s\n", machine.name().c_str(),
                library.libtorch_version().c_str(), model->description().c_str(), o.batch, o.image_size,
                o.precision.c_str(), o.memory_format.c_str(), model->outputs().front().describe().c_str(),
                o.deterministic ? ", deterministic" : "");
    std::printf(
        "%.2f batches/s, %.0f samples/s over %d batches; made in %.1f s, first batch %.1f s; submitting took %.0f %% "
        "of the time; %lld driver allocations while measured\n",
        settings.batches / took, settings.batches * static_cast<double>(o.batch) / took, settings.batches,
        seconds(made - started), seconds(first_done - made), 100 * seconds(submitted - begin) / took,
        static_cast<long long>(machine.driver_allocations() - allocations));
    if (!settings.compares) return;
    run();
    machine.wait();
    const std::size_t last = (next + in_flight.size() - 1) % in_flight.size();
    compare(library, o, input, on_host(in_flight[last].front(), machine.device()));
}

}  // namespace

int main(int argc, char** argv) {
    Settings settings = read(argc, argv);
    try {
        const c10::InferenceMode inference;
        measure(settings);
    } catch (const offramp::Error& error) {
        std::fprintf(stderr, "%s\n", error.what());
        return to_int(error.kind());
    } catch (const std::exception& error) {
        std::fprintf(stderr, "%s\n", error.what());
        return to_int(offramp::ErrorKind::Internal);
    }
    return 0;
}
