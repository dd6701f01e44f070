// Reads a run's slabs in shared memory and prints the sum of each sample. Start as many as there are cores.
#include <cstdio>
#include <numeric>
#include <offramp/consumer.hpp>

int main(int, char** argv) {
    offramp::Consumer(argv[1]).for_each([](const offramp::Slab& slab) {
        for (std::uint32_t i = 0; i < slab.size(); ++i) {
            const auto values = slab.row<float>(i);
            std::printf("%s %.0f\n", slab.sample(i).key, std::accumulate(values.begin(), values.end(), 0.0));
        }
        std::fflush(stdout);  // commits before the slab is returned
    });
}
