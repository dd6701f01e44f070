#include "producer/runner/probe/machine_probe.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "common/json/json_text.hpp"
#include "producer/runner/kernels/gpu_runtime.hpp"

namespace offramp {
namespace {

// One probe for all tests: it creates 64 MiB of shared memory.
const nlohmann::json& machine_probe() {
    static const nlohmann::json probe = parse_json(probe_machine_json());
    return probe;
}

TEST(MachineProbe, ReportsTheFactsOfThisMachine) {
    const nlohmann::json& probe = machine_probe();
    const bool has_gpu = find_gpus_for_kernels().count > 0;
    EXPECT_EQ(probe.at("device").at("kind"), has_gpu ? "cuda" : "cpu");
    EXPECT_FALSE(probe.at("device").at("name").get<std::string>().empty());
    EXPECT_GT(probe.at("device").at("total_bytes").get<std::size_t>(), 0U);
    EXPECT_EQ(probe.at("gpu_error").is_null(), has_gpu);
    EXPECT_GE(probe.at("cores").get<int>(), 1);
    EXPECT_GE(probe.at("numa_nodes").get<int>(), 1);
    EXPECT_GE(probe.at("shm").at("total").get<std::size_t>(), probe.at("shm").at("free").get<std::size_t>());
    EXPECT_TRUE(probe.at("memlock_bytes").is_null() || probe.at("memlock_bytes").is_number_unsigned());
    for (const char* const key : {"driver_version", "runtime_version", "compute", "pcie_generation", "pcie_width",
                                  "pci_address", "numa_node", "free_bytes"})
        EXPECT_TRUE(probe.at("device").contains(key)) << key;
}

TEST(MachineProbe, PageLocksARealSlab) {
    const nlohmann::json& pinning = machine_probe().at("pinning");
    ASSERT_TRUE(pinning.at("error").is_null()) << pinning;
    EXPECT_EQ(pinning.at("registered").get<bool>(), find_gpus_for_kernels().count > 0);
    EXPECT_GT(pinning.at("gigabytes_per_second").get<double>(), 0.0);
}

TEST(MachineProbe, LeavesNothingBehind) {
    static_cast<void>(machine_probe());
    for (const auto& entry : std::filesystem::directory_iterator("/dev/shm"))
        EXPECT_FALSE(entry.path().filename().string().starts_with("offramp-probe-" + std::to_string(::getpid()) + "-"))
            << entry.path();
}

}  // namespace
}  // namespace offramp
