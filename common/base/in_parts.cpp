#include "common/base/in_parts.hpp"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

namespace offramp {

void in_parts(std::uint64_t count, const std::function<void(std::uint64_t begin, std::uint64_t end)>& work,
              std::uint64_t of_a_part) {
    const std::uint64_t parts = count / of_a_part + (count % of_a_part == 0 ? 0 : 1);
    if (parts == 0) return;
    if (parts == 1) return work(0, count);
    std::atomic<std::uint64_t> next{0};
    std::mutex mutex;
    std::exception_ptr failure;  // guarded by the mutex
    const auto take_parts = [&] {
        for (std::uint64_t part = next++; part < parts; part = next++) {
            try {
                work(part * of_a_part, std::min(count, (part + 1) * of_a_part));
            } catch (...) {
                const std::lock_guard lock(mutex);
                if (!failure) failure = std::current_exception();
                next = parts;
            }
        }
    };
    {
        std::vector<std::jthread> others;
        try {
            const std::uint64_t most =
                std::min<std::uint64_t>(parts, std::max(1U, std::thread::hardware_concurrency()));
            while (others.size() + 1 < most) others.emplace_back(take_parts);
        } catch (const std::system_error&) {
            // The process may start no more threads.
        }
        take_parts();
    }
    if (failure) std::rethrow_exception(failure);
}

}  // namespace offramp
