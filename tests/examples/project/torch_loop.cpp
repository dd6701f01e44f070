// A custom loop in LibTorch, on the GPU if there is one: 10 batches of 8 samples.
#include <torch/torch.h>
#include <offramp/egress.hpp>

#include <cstdio>

int main(int, char** argv) {
    const torch::InferenceMode inference;
    const auto device = torch::cuda::is_available() ? torch::kCUDA : torch::kCPU;
    offramp::Egress egress({.run_dir = argv[1],
                            .tensors = {{"values", offramp::float32, {8, 1000}}},
                            .device = device == torch::kCUDA ? "cuda" : "cpu"});
    for (int number = 0; number < 10; ++number) {
        const auto outputs = std::make_shared<torch::Tensor>(
            torch::full({8, 1000}, number, torch::dtype(torch::kFloat32).device(device)));
        std::vector<std::string> keys;
        for (int row = 0; row < 8; ++row)
            keys.push_back("batch-" + std::to_string(number) + "/row-" + std::to_string(row));
        // null: LibTorch's default stream
        egress.submit({outputs->const_data_ptr()}, 8, nullptr, outputs, keys);
    }
    egress.drain();
    std::printf("%llu samples done\n", static_cast<unsigned long long>(egress.stats().samples_completed));
}
