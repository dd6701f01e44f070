#include <cstdlib>

#include "producer/device/cuda_failure.hpp"
#include "producer/runner/kernels/gpu_runtime.hpp"
#include "producer/runner/kernels/kernels.hpp"
#include "tests/contract/device/device_contract.hpp"

namespace offramp {

std::vector<std::string> devices_under_test() { return {"cuda"}; }

namespace {

class GpuKernelsDeathTest : public testing::Test {
  protected:
    void SetUp() override {
        GTEST_FLAG_SET(death_test_style, "threadsafe");
        const GpuSearch search = find_gpus_for_kernels();
        if (search.count == 0) GTEST_SKIP() << search.obstacle;
    }
};

// A kernel reads unmapped memory: the context is lost, and the error has the exit code for that.
[[noreturn]] void exit_with_the_code_of_a_bad_address() {
    try {
        const auto device = open_device_for_kernels("cuda");
        const auto target = device->allocate(1024, "target");
        const auto stream = device->make_stream("bad address");
        // NOLINTNEXTLINE(performance-no-int-to-ptr): an invalid address is intended
        kernels::cast(*stream, target->data(), kBFloat16, reinterpret_cast<const void*>(std::uintptr_t{4096}), 16);
        stream->synchronize();
        std::_Exit(0);
    } catch (const CudaError& error) {
        std::fprintf(stderr, "%s\n", error.what());
        std::_Exit(to_int(error.kind()));
    }
}

TEST_F(GpuKernelsDeathTest, CallsALostContextBroken) {
    EXPECT_EXIT(exit_with_the_code_of_a_bad_address(), testing::ExitedWithCode(to_int(ErrorKind::DeviceBroken)),
                "CUDA_ERROR_ILLEGAL_ADDRESS \\(700\\).*start the program again");
}

TEST_F(GpuKernelsDeathTest, SurvivesDestructorsAfterALostContext) {
    EXPECT_EXIT(
        {
            try {
                const auto device = open_device_for_kernels("cuda");
                const auto target = device->allocate(1024, "target");
                const auto event = device->make_event();
                const auto stream = device->make_stream("bad address");
                // NOLINTNEXTLINE(performance-no-int-to-ptr): an invalid address is intended
                const auto* const nowhere = reinterpret_cast<const void*>(std::uintptr_t{4096});
                kernels::cast(*stream, target->data(), kBFloat16, nowhere, 16);
                stream->record(*event);
                event->wait();
            } catch (const CudaError&) {
                std::_Exit(0);
            }
            std::_Exit(1);
        },
        testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace offramp
