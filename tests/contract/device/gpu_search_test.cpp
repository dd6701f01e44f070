#include "producer/device/gpu_search.hpp"

#include <dlfcn.h>
#include <gmock/gmock.h>

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "producer/device/cuda_failure.hpp"
#include "producer/device/device.hpp"

namespace offramp {
namespace {

using Environment = std::vector<std::pair<const char*, std::string>>;

// A child process looks for GPUs with a made-up driver: a process opens a driver once.
class GpuSearchDeathTest : public testing::Test {
  protected:
    void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }

    static void expect_found(const char* driver, const Environment& environment, int runtime_version,
                             const std::string& output) {
        with_driver(driver, environment,
                    [&] { EXPECT_EXIT(print_search(runtime_version), testing::ExitedWithCode(0), output); });
    }

    static void expect_opened(const Environment& environment, const std::string& output) {
        with_driver(OFFRAMP_MADE_UP_DRIVER, environment,
                    [&] { EXPECT_EXIT(print_automatic_device(), testing::ExitedWithCode(0), output); });
    }

  private:
    static void with_driver(const char* driver, const Environment& environment, const std::function<void()>& look) {
        const char* const before = std::getenv("LD_LIBRARY_PATH");
        ::setenv("LD_LIBRARY_PATH", (driver + std::string(":") + (before == nullptr ? "" : before)).c_str(), 1);
        for (const auto& [name, value] : environment) ::setenv(name, value.c_str(), 1);
        look();
        for (const auto& [name, value] : environment) ::unsetenv(name);
    }

    // Prints what open_device("auto") takes, or its error.
    [[noreturn]] static void print_automatic_device() {
        try {
            std::fprintf(stderr, "%s.\n", open_device("auto")->info().kind.c_str());
        } catch (const CudaError& error) {
            std::fprintf(stderr, "%s.\n", error.what());
        }
        std::_Exit(0);
    }

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

TEST_F(GpuSearchDeathTest, AutoTakesTheCpuOnlyWhereNoGpuIsSeen) {
    expect_opened({{"MADE_UP_COUNT", "0"}}, "cpu\\.");
    expect_opened({{"MADE_UP_INIT", "100"}}, "cpu\\.");
    expect_opened({{"MADE_UP_VERSION", "11080"}}, "Device 'auto' cannot be used: the NVIDIA driver is too old");
    expect_opened({{"MADE_UP_LACKS", "cuLaunchHostFunc"}}, "Device 'auto' cannot be used: the NVIDIA driver");
    expect_opened({{"MADE_UP_INIT", "803"}},
                  "Device 'auto' cannot be used: CUDA cannot start: CUDA_ERROR_MADE_UP \\(803\\), a made-up error");
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
