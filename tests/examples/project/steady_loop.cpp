// A loop that runs until a file exists. Meanwhile consumers connect, leave and die, and the loop never waits for them.
#include <cstdio>
#include <filesystem>
#include <memory>
#include <offramp/egress.hpp>
#include <thread>
#include <vector>

int main(int, char** argv) {
    offramp::Egress egress({.run_dir = argv[1],
                            .tensors = {{"values", offramp::float32, {8, 1000}}},
                            .device = "cpu",
                            .max_failures = 100});  // the test kills consumers; no batch is faulty
    int number = 0;
    for (; !std::filesystem::exists(argv[2]); ++number) {
        auto outputs = std::make_shared<std::vector<float>>(8 * 1000, static_cast<float>(number));
        std::vector<std::string> keys;
        for (int row = 0; row < 8; ++row)
            keys.push_back("batch-" + std::to_string(number) + "/row-" + std::to_string(row));
        egress.submit({outputs->data()}, 8, nullptr, outputs, keys);
        std::this_thread::sleep_for(std::chrono::milliseconds(10));  // the model's work
    }
    egress.drain();
    std::printf("%d\n", number);
}
