// A custom loop on the CPU: 10 batches of 8 samples. Offramp copies outputs while the loop computes the next ones.
#include <cstdio>
#include <memory>
#include <offramp/egress.hpp>
#include <vector>

int main(int, char** argv) {
    offramp::Egress egress({.run_dir = argv[1], .tensors = {{"values", offramp::float32, {8, 1000}}}, .device = "cpu"});
    for (int number = 0; number < 10; ++number) {
        auto outputs = std::make_shared<std::vector<float>>(8 * 1000, static_cast<float>(number));  // the model's work
        std::vector<std::string> keys;
        for (int row = 0; row < 8; ++row)
            keys.push_back("batch-" + std::to_string(number) + "/row-" + std::to_string(row));
        // returns immediately; `outputs` is held until it is copied
        egress.submit({outputs->data()}, 8, nullptr, outputs, keys);
    }
    egress.drain();
    std::printf("%llu samples done\n", static_cast<unsigned long long>(egress.stats().samples_completed));
}
