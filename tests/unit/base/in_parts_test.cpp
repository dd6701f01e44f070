#include "common/base/in_parts.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <stdexcept>
#include <thread>
#include <vector>

namespace offramp {
namespace {

TEST(InParts, WorkOnEachItemOnce) {
    for (const std::uint64_t count : {0, 1, 9, 10, 11, 1000, 1001}) {
        std::vector<std::atomic<int>> done(count);
        in_parts(
            count,
            [&](std::uint64_t begin, std::uint64_t end) {
                EXPECT_TRUE(begin < end && end <= count && (end - begin <= 10 || count <= 10));
                for (std::uint64_t item = begin; item < end; ++item) ++done[item];
            },
            10);
        EXPECT_TRUE(std::ranges::all_of(done, [](const auto& times) { return times == 1; })) << count;
    }
}

TEST(InParts, ThrowAnErrorOnceNoPartIsAtWork) {
    std::atomic<int> at_work{0};
    EXPECT_THROW(in_parts(
                     1000,
                     [&](std::uint64_t begin, std::uint64_t) {
                         if (begin == 20) throw std::runtime_error("part 2");
                         ++at_work;
                         for (int i = 0; i < 300; ++i) std::this_thread::yield();
                         --at_work;
                     },
                     10),
                 std::runtime_error);
    EXPECT_EQ(at_work, 0) << "other parts are awaited";
}

}  // namespace
}  // namespace offramp
