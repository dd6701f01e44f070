#include "producer/device/gpu_search.hpp"

#include <dlfcn.h>
#include <gmock/gmock.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

namespace offramp {
namespace {

using Environment = std::vector<std::pair<const char*, std::string>>;

// A child process looks for GPUs with a made-up driver: a process opens a driver once.
class GpuSearchDeathTest : public testing::Test {
  protected:
    void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }

    static void expect_found(const char* driver, const Environment& environment, int runtime_version,
                             const std::string& output) {
        const char* const before = std::getenv("LD_LIBRARY_PATH");
        ::setenv("LD_LIBRARY_PATH", (driver + std::string(":") + (before == nullptr ? "" : before)).c_str(), 1);
        for (const auto& [name, value] : environment) ::setenv(name, value.c_str(), 1);
        EXPECT_EXIT(print_search(runtime_version), testing::ExitedWithCode(0), output);
        for (const auto& [name, value] : environment) ::unsetenv(name);
    }

  private:
    [[noreturn]] static void print_search(int runtime_version) {
        const GpuSearch search = find_gpus(runtime_version);
        std::fprintf(stderr, "%d: %s.\n", search.count, search.obstacle.c_str());
        std::_Exit(0);
    }
};

TEST_F(GpuSearchDeathTest, CountsWhatTheDriverHas) {
    expect_found(OFFRAMP_MADE_UP_DRIVER, {{"MADE_UP_COUNT", "2"}}, 0, "2: \\.");
    expect_found(OFFRAMP_MADE_UP_DRIVER, {{"MADE_UP_VERSION", "13010"}}, 13000, "1: \\.");
    expect_found(OFFRAMP_MADE_UP_DRIVER, {{"MADE_UP_VERSION", "13000"}}, 13010, "1: \\.");
}

TEST_F(GpuSearchDeathTest, ReportsTheFoundAndTheNeededDriver) {
    expect_found(OFFRAMP_MADE_UP_DRIVER, {{"MADE_UP_VERSION", "12040"}}, 13000,
                 "0: the NVIDIA driver is too old: found one for CUDA 12\\.4, needed one for CUDA 13\\.0 or later "
                 "\\(release 580 or later\\)\\.");
    expect_found(OFFRAMP_MADE_UP_OLD_DRIVER, {{"MADE_UP_VERSION", "11080"}}, 0,
                 "0: the NVIDIA driver is too old: found one for CUDA 11\\.8, needed one for CUDA 12\\.0 or later "
                 "\\(release 525 or later\\)\\.");
}

TEST_F(GpuSearchDeathTest, ReportsThatNoGpuIsSeen) {
    expect_found(OFFRAMP_MADE_UP_DRIVER, {{"MADE_UP_COUNT", "0"}, {"CUDA_VISIBLE_DEVICES", "7"}}, 0,
                 "0: CUDA finds no GPU among CUDA_VISIBLE_DEVICES='7'\\.");
    expect_found(OFFRAMP_MADE_UP_DRIVER, {{"MADE_UP_INIT", "100"}, {"CUDA_VISIBLE_DEVICES", ""}}, 0,
                 "0: CUDA finds no GPU among CUDA_VISIBLE_DEVICES=''\\.");
}

TEST_F(GpuSearchDeathTest, ReportsCudasErrorWhenItCannotStart) {
    expect_found(OFFRAMP_MADE_UP_DRIVER, {{"MADE_UP_INIT", "803"}}, 0,
                 "0: CUDA cannot start: CUDA_ERROR_MADE_UP \\(803\\), a made-up error\\.");
}

TEST_F(GpuSearchDeathTest, NamesAFunctionThatTheDriverLacks) {
    expect_found(OFFRAMP_MADE_UP_DRIVER, {{"MADE_UP_LACKS", "cuLaunchHostFunc"}}, 0,
                 "0: the NVIDIA driver \\(libcuda.so.1\\) has no function cuLaunchHostFunc\\.");
}

TEST(GpuSearch, ReportsThatNoDriverIsInstalled) {
    if (void* const installed = ::dlopen("libcuda.so.1", RTLD_LAZY)) {
        ::dlclose(installed);
        GTEST_SKIP() << "this machine has a driver";
    }
    const GpuSearch search = find_gpus(13000);
    EXPECT_EQ(search.count, 0);
    EXPECT_EQ(search.obstacle,
              "no NVIDIA driver is installed here (libcuda.so.1 is missing); one for CUDA 13.0 or later is needed "
              "(release 580 or later)");
}

}  // namespace
}  // namespace offramp
