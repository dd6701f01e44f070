#include "consumer/sinks/http/http_exchange.hpp"

#include <gmock/gmock.h>

#include <set>
#include <vector>

namespace offramp::test {
namespace {

using std::chrono::milliseconds;

// The longest value of each; the shortest is half of it.
const std::vector<milliseconds> kWhole{milliseconds(100),  milliseconds(200),  milliseconds(400),
                                       milliseconds(800),  milliseconds(1600), milliseconds(3200),
                                       milliseconds(5000), milliseconds(5000), milliseconds(5000)};

TEST(RetryDelay, DoublesUpToFiveSecondsWithJitter) {
    std::set<milliseconds> seconds;
    for (std::uint32_t seed = 1; seed <= 200; ++seed) {
        RetryDelay delay(seed);
        for (std::size_t i = 0; i < kWhole.size(); ++i) {
            const milliseconds next = delay.next();
            EXPECT_GE(next, kWhole[i] / 2) << i;
            EXPECT_LE(next, kWhole[i]) << i;
            if (i == 1) seconds.insert(next);
        }
    }
    EXPECT_GT(seconds.size(), 30U) << "else consumers would retry together";
}

TEST(RetryDelay, RestartsAfterASuccess) {
    RetryDelay delay(7);
    for (int i = 0; i < 20; ++i) delay.next();
    delay.reset();
    EXPECT_LE(delay.next(), kWhole[0]);
}

}  // namespace
}  // namespace offramp::test
