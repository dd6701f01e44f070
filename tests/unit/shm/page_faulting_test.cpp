#include "common/shm/shared_region.hpp"

#include <gtest/gtest.h>

#include "common/base/error.hpp"
#include "tests/unit/shm/own_objects.hpp"

namespace offramp {
namespace {

constexpr std::size_t kBytes = 1 << 20;

void expect_faulted_in(void (*fault_in)(std::span<std::byte>), const char* what) {
    const auto names = support::own_run(what);
    const auto region = SharedRegion::create(names.span(0), kBytes);
    region.bytes()[8192] = std::byte{77};
    const std::string all = std::to_string(kBytes / 1024) + " kB";
    ASSERT_EQ(support::smaps_field(region.bytes().data(), "Rss").find(all), std::string::npos);
    fault_in(region.bytes());
    EXPECT_NE(support::smaps_field(region.bytes().data(), "Rss").find(all), std::string::npos);
    EXPECT_EQ(region.bytes()[8192], std::byte{77});
    EXPECT_EQ(region.bytes()[8191], std::byte{0});
}

TEST(PageFaulting, PopulatesEveryPage) { expect_faulted_in(&fault_in_pages, "fault"); }

TEST(PageFaulting, TouchesEveryPageWhereTheKernelCannot) {
    expect_faulted_in([](std::span<std::byte> pages) { touch_pages(pages); }, "touch");
}

TEST(PageFaulting, ReportsAShortageOfPages) {
    const auto names = support::own_run("empty");
    const auto region = SharedRegion::create(names.span(0), kBytes);
    // Past the end of the object there are no pages: a touch without a check would die of SIGBUS.
    ASSERT_EQ(::truncate(("/dev/shm" + names.span(0)).c_str(), 4096), 0);
    EXPECT_THROW(fault_in_pages(region.bytes()), SystemError);
}

}  // namespace
}  // namespace offramp
