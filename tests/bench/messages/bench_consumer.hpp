#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "common/app/settings/run_config.hpp"
#include "common/base/unique_fd.hpp"

namespace offramp {

// Statistics of one consumer process.
struct ConsumerStats {
    std::uint64_t slabs = 0;
    std::uint64_t cpu_ns = 0;                 // of the process, from its first slab to its last
    std::vector<std::uint64_t> latencies_ns;  // filled_at_ns to the moment at which the loan was open
};

// Starts this binary as a consumer with the real session, loop and loans, and a processor that reads nothing.
// Owns: the process (killed if finish() was not called) and the pipe for its figures.
// Thread: one. Blocks: finish(). Errors: SystemError.
class BenchConsumer {
  public:
    BenchConsumer(const std::string& run_dir, std::uint32_t window, bool records_latencies);
    ~BenchConsumer();
    BenchConsumer(BenchConsumer&& other) noexcept;
    BenchConsumer& operator=(BenchConsumer&&) = delete;

    // Reads to the pipe's end, then waits for the process. Errors: Error when it did not end with 0.
    ConsumerStats finish();

  private:
    pid_t pid_ = -1;
    UniqueFd figures_;
};

// The settings of consumers, which the producer also expects (SlabWork).
RunConfig settings_of_bench_consumers();
// The consumer's main function, with the arguments of BenchConsumer. Returns the exit code.
int serve_as_bench_consumer(const std::vector<std::string>& arguments);
inline constexpr const char* kAsConsumer = "--as-consumer";

}  // namespace offramp
