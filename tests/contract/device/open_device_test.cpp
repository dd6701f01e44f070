#include <gtest/gtest.h>

#include "producer/device/cuda_failure.hpp"
#include "producer/device/device.hpp"
#include "producer/device/gpu_search.hpp"

namespace offramp {
namespace {

TEST(OpenDevice, RefusesUnknownWordsAndListsTheKnownOnes) {
    for (const std::string word :
         {"", "gpu", "CUDA", "cuda:", "cuda:x", "cuda:-1", "cuda:1x", "cuda: 1", "cuda:99999999999", "cpu:0"}) {
        try {
            static_cast<void>(open_device(word));
            ADD_FAILURE() << "'" << word << "' was accepted";
        } catch (const ConfigError& error) {
            const std::string text = error.what();
            EXPECT_NE(text.find("'" + word + "'"), std::string::npos) << text;
            EXPECT_NE(text.find("auto, cpu, cuda, cuda:N"), std::string::npos) << text;
            EXPECT_EQ(error.kind(), ErrorKind::Usage);
        }
    }
}

TEST(OpenDevice, TakesTheCpuWhenAsked) {
    EXPECT_FALSE(open_device("cpu")->is_gpu());
    EXPECT_EQ(open_device("cpu")->info().kind, "cpu");
}

TEST(OpenDevice, ReportsTheMissingGpu) {
    const GpuSearch search = find_gpus();
    if (search.count > 0) GTEST_SKIP() << "this machine has a GPU";
    EXPECT_FALSE(search.obstacle.empty());
    EXPECT_FALSE(open_device("auto")->is_gpu());
    for (const std::string word : {"cuda", "cuda:0", "cuda:3"}) {
        try {
            static_cast<void>(open_device(word));
            ADD_FAILURE() << "'" << word << "' was opened";
        } catch (const CudaError& error) {
            EXPECT_EQ(error.kind(), ErrorKind::DeviceUnsupported);
            const std::string text = error.what();
            EXPECT_NE(text.find("'" + word + "'"), std::string::npos) << text;
            EXPECT_NE(text.find(search.obstacle), std::string::npos) << text;
            EXPECT_NE(text.find("Run on the CPU"), std::string::npos) << text;
        }
    }
}

}  // namespace
}  // namespace offramp
