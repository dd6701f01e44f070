// A custom loop on a GPU, with its own stream: 10 batches of 8 samples.
#include <cuda_runtime.h>
#include <cstdio>
#include <memory>
#include <offramp/egress.hpp>
#include <vector>

int main(int, char** argv) {
    cudaStream_t stream = nullptr;
    if (cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) != cudaSuccess) return 1;
    const offramp::TensorSpec values{"values", offramp::float32, {8, 1000}};
    offramp::Egress egress({.run_dir = argv[1], .tensors = {values}, .device = "cuda"});
    for (int number = 0; number < 10; ++number) {
        const std::vector<float> made(8 * 1000, static_cast<float>(number));
        float* outputs = nullptr;
        cudaMallocAsync(&outputs, made.size() * sizeof(float), stream);
        cudaMemcpyAsync(outputs, made.data(), made.size() * sizeof(float), cudaMemcpyHostToDevice, stream);
        const std::string batch = "batch-" + std::to_string(number);
        std::vector<std::string> keys;
        for (int row = 0; row < 8; ++row) keys.push_back(batch + "/row-" + std::to_string(row));
        egress.submit({outputs}, 8, stream, std::shared_ptr<float>(outputs, [](float* done) { cudaFree(done); }), keys);
    }
    egress.drain();
    std::printf("%llu samples done\n", static_cast<unsigned long long>(egress.stats().samples_completed));
}
