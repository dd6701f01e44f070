#include "producer/runner/run/egress_plan.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spdlog/sinks/ostream_sink.h>

#include <fstream>
#include <memory>
#include <sstream>

#include "common/base/error.hpp"
#include "common/base/log.hpp"
#include "tests/contract/processors/processor_world.hpp"

namespace offramp {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr std::uint64_t kGib = std::uint64_t{1} << 30U;

// The warning or the error.
std::string memory_verdict(const MachineMemory& memory, std::uint32_t slabs, std::uint64_t slab_bytes) {
    std::ostringstream text;
    const auto before = spdlog::default_logger();
    spdlog::set_default_logger(
        std::make_shared<spdlog::logger>("test", std::make_shared<spdlog::sinks::ostream_sink_mt>(text)));
    try {
        require_memory(memory, slabs, slab_bytes, 4);
    } catch (const Error& problem) {
        EXPECT_EQ(problem.kind(), ErrorKind::System);
        text << "error: " << problem.what();
    }
    spdlog::set_default_logger(before);
    return text.str();
}

TEST(MemoryCheck, RefusesMoreThanTheMachineHasWithTheSizes) {
    EXPECT_THAT(memory_verdict({.total = 23 * kGib, .available = 12 * kGib, .own = 11 * kGib}, 8, 2 * kGib),
                AllOf(HasSubstr("error: the run takes more memory than the 23.0 GiB of this machine: 16.0 GiB for 8 "
                                "slabs of 2048.0 MiB, beside the 11.0 GiB that this producer uses now"),
                      HasSubstr("a batch of 4"), HasSubstr("smaller --batch, fewer --slabs"), HasSubstr("--tile")));
}

TEST(MemoryCheck, WarnsOfMemoryThatOthersUse) {
    EXPECT_THAT(memory_verdict({.total = 23 * kGib, .available = 8 * kGib, .own = 2 * kGib}, 8, 2 * kGib),
                AllOf(HasSubstr("memory may become short: 8.0 GiB are available"), HasSubstr("16.0 GiB for 8 slabs"),
                      ::testing::Not(HasSubstr("error:"))));
}

TEST(MemoryCheck, ReportsNothingThatFits) {
    EXPECT_EQ(memory_verdict({.total = 23 * kGib, .available = 16 * kGib, .own = 7 * kGib}, 8, 2 * kGib), "");
    EXPECT_EQ(memory_verdict({}, 8, 2 * kGib), "") << "the machine is unknown";
}

TEST(MemoryCheck, TheKernelReportsMachineAndProcess) {
    test::ScratchFolder folder;
    std::ofstream(folder.path() + "/meminfo")
        << "MemTotal:  100 kB\nMemFree: 3 kB\nMemAvailable:   60 kB\nSwapTotal: 20 kB\nSwapFree: 10 kB\nHugePages: 7\n";
    std::ofstream(folder.path() + "/status") << "Name:\tx: 9 kB\nRssAnon:\t   5 kB\nRssShmem: 8 kB\nVmPeak: some kB\n";
    const MachineMemory found = MachineMemory::read(folder.path() + "/meminfo", folder.path() + "/status");
    EXPECT_EQ(found.total, 120U * 1024);
    EXPECT_EQ(found.available, 70U * 1024);
    EXPECT_EQ(found.own, 5U * 1024);
    EXPECT_EQ(MachineMemory::read("/nowhere", "/nowhere").total, 0U);
    const MachineMemory here = MachineMemory::read();
    EXPECT_GT(here.total, here.available);
    EXPECT_GT(here.own, 0U);
}

}  // namespace
}  // namespace offramp
