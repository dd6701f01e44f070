// The rate of a loop in LibTorch whose outputs leave the device through the installed library, over the rate of the
// same loop with its outputs dropped: one after the other, several times in one run. Consumers are processes of their
// own and read every byte.
//
//   offramp-door-bench RUN_DIR [CONSUMERS] [BATCHES] [ROUNDS] [LAYERS] [cpu|cuda]

#include <sys/wait.h>
#include <torch/torch.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <offramp/consumer.hpp>
#include <offramp/egress.hpp>
#include <string>
#include <vector>

namespace {

using Seconds = std::chrono::duration<double>;

struct Sizes {
    int consumers = 4, batches = 30, rounds = 5, layers = 60;
    bool gpu = true;
    std::int64_t rows() const { return gpu ? 64 : 4; }
    std::int64_t side() const { return gpu ? 512 : 64; }
};

// Reads every byte of each slab, and says at the end how many.
int consume(const std::string& run_dir) {
    std::uint64_t sum = 0, bytes = 0;
    offramp::Consumer consumer(run_dir, 600);
    consumer.for_each([&](const offramp::Slab& slab) {
        for (std::uint32_t row = 0; row < slab.size(); ++row) {
            const auto words = slab.row<std::uint32_t>(row);
            for (const std::uint32_t word : words) sum += word;
            bytes += words.size_bytes();
            consumer.progress();
        }
    });
    std::printf("a consumer read %.1f GB (sum %llx)\n", static_cast<double>(bytes) / 1e9,
                static_cast<unsigned long long>(sum));
    std::fflush(stdout);
    return 0;
}

// Layers of 3 x 3 convolutions at half the size, and scores of 21 classes at the whole one.
class Network {
  public:
    Network(const Sizes& sizes, torch::Device device)
        : options_(torch::dtype(device.is_cuda() ? torch::kBFloat16 : torch::kFloat32).device(device)),
          input_(torch::rand({sizes.rows(), 64, sizes.side() / 2, sizes.side() / 2}, options_)
                     .contiguous(at::MemoryFormat::ChannelsLast)),
          kernel_((torch::rand({64, 64, 3, 3}, options_) / 600).contiguous(at::MemoryFormat::ChannelsLast)),
          head_(torch::rand({21, 64, 1, 1}, options_).contiguous(at::MemoryFormat::ChannelsLast)),
          layers_(sizes.layers),
          size_{sizes.side(), sizes.side()} {}

    torch::Tensor operator()() const {
        namespace F = torch::nn::functional;
        torch::Tensor x = input_;
        for (int i = 0; i < layers_; ++i) x = torch::conv2d(x, kernel_, {}, 1, 1);
        x = torch::conv2d(x, head_).to(torch::kFloat32).contiguous();
        return F::interpolate(x, F::InterpolateFuncOptions().size(size_).mode(torch::kBilinear).align_corners(false));
    }

  private:
    torch::TensorOptions options_;
    torch::Tensor input_, kernel_, head_;
    int layers_;
    std::vector<std::int64_t> size_;
};

template <typename Work>
double batches_a_second(const Sizes& sizes, const Network& network, Work&& work) {
    if (sizes.gpu) torch::cuda::synchronize();
    const auto began = std::chrono::steady_clock::now();
    for (int i = 0; i < sizes.batches; ++i) work(network());
    if (sizes.gpu) torch::cuda::synchronize();
    return sizes.batches / Seconds(std::chrono::steady_clock::now() - began).count();
}

}  // namespace

int main(int argc, char** argv) {
    if (argc < 2) {
        std::fprintf(stderr, "offramp-door-bench RUN_DIR [CONSUMERS] [BATCHES] [ROUNDS] [LAYERS] [cpu|cuda]\n");
        return 64;
    }
    Sizes sizes;
    int* const numbers[] = {&sizes.consumers, &sizes.batches, &sizes.rounds, &sizes.layers};
    for (int i = 2; i < std::min(argc, 6); ++i) *numbers[i - 2] = std::max(1, std::atoi(argv[i]));
    if (argc > 6) sizes.gpu = std::string(argv[6]) != "cpu";
    for (int i = 0; i < sizes.consumers; ++i)  // before CUDA is there
        if (::fork() == 0) ::_exit(consume(argv[1]));
    {
        const torch::InferenceMode inference;
        const torch::Device device(sizes.gpu ? torch::kCUDA : torch::kCPU);
        const Network network(sizes, device);
        offramp::Egress egress(
            {.run_dir = argv[1],
             .tensors = {{"scores", offramp::float32, {sizes.rows(), 21, sizes.side(), sizes.side()}}},
             .device = sizes.gpu ? "cuda" : "cpu",
             .name = "door-bench"});
        const auto submit = [&](torch::Tensor outputs) {
            const auto held = std::make_shared<torch::Tensor>(std::move(outputs));
            egress.submit({held->const_data_ptr()}, static_cast<std::uint32_t>(sizes.rows()), nullptr, held);
        };
        const auto drop = [](const torch::Tensor&) {};
        for (int i = 0; i < 2; ++i) {  // cuDNN's choice, the allocator's memory, the consumers' mappings
            batches_a_second(sizes, network, drop);
            batches_a_second(sizes, network, submit);
        }
        std::vector<double> ratios;
        for (int round = 0; round < sizes.rounds; ++round) {
            const double dropped = batches_a_second(sizes, network, drop);
            const double submitted = batches_a_second(sizes, network, submit);
            ratios.push_back(submitted / dropped);
            std::printf("round %d: %.3f batches/s dropped, %.3f through the egress: %.4f\n", round, dropped, submitted,
                        ratios.back());
            std::fflush(stdout);
        }
        egress.drain();
        const offramp_egress_figures figures = egress.figures();
        std::ranges::sort(ratios);
        std::printf(
            "%s, %d consumers, %d layers, %d batches of %.2f GB a round, %d rounds: ratio %.4f [%.4f, %.4f]; link %.1f "
            "GB/s while copying; %llu of %llu samples done\n",
            sizes.gpu ? "cuda" : "cpu", sizes.consumers, sizes.layers, sizes.batches,
            static_cast<double>(sizes.rows() * 21 * sizes.side() * sizes.side() * 4) / 1e9, sizes.rounds,
            ratios[ratios.size() / 2], ratios.front(), ratios.back(),
            figures.copy_seconds > 0 ? static_cast<double>(figures.bytes_copied) / figures.copy_seconds / 1e9 : 0.0,
            static_cast<unsigned long long>(figures.samples_completed),
            static_cast<unsigned long long>(figures.samples_submitted));
    }
    while (::wait(nullptr) > 0) {
    }
    return 0;
}
