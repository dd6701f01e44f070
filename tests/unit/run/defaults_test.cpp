#include "producer/runner/run/defaults.hpp"

#include <gtest/gtest.h>

namespace offramp {
namespace {

TEST(Defaults, WithoutConsumersTheirNumberStaysAtNone) {
    EXPECT_EQ(resolve_defaults({}, {.has_gpu = true, .cores = 8}).consumers, 4U);
    EXPECT_EQ(resolve_defaults({}, {.has_gpu = true, .cores = 8}, {}, {.slabs = EgressTraits::Slabs::None}).consumers,
              0U);
    EXPECT_EQ(resolve_defaults({}, {.has_gpu = true, .cores = 8}, {}, {.slabs = EgressTraits::Slabs::MadePerFilling})
                  .consumers,
              4U);
}

}  // namespace
}  // namespace offramp
