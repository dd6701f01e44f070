#include "producer/device/cuda_failure.hpp"
#include "producer/device/gpu_search.hpp"
#include "tests/contract/device/device_contract.hpp"

namespace offramp {

std::vector<std::string> devices_under_test() { return {"cuda"}; }

namespace {

TEST(CudaDevices, ReportTheirNumberWhenOneIsMissing) {
    const GpuSearch search = find_gpus();
    if (search.count == 0) GTEST_SKIP() << search.obstacle;
    try {
        static_cast<void>(open_device("cuda:999"));
        FAIL() << "GPU 999 was opened";
    } catch (const CudaError& error) {
        EXPECT_EQ(error.kind(), ErrorKind::DeviceUnsupported);
        const std::string text = error.what();
        EXPECT_NE(text.find("'cuda:999' does not exist"), std::string::npos) << text;
        EXPECT_NE(text.find(std::to_string(search.count) + " GPU"), std::string::npos) << text;
    }
    EXPECT_TRUE(open_device("cuda:0")->is_gpu());
    EXPECT_TRUE(open_device("auto")->is_gpu());
}

}  // namespace
}  // namespace offramp
