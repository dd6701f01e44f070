#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>

#include "producer/device/cuda_device.hpp"
#include "producer/device/host_memory.hpp"
#include "tests/support/scratch_folder.hpp"

namespace offramp {
namespace {

// A folder like /sys/bus/pci/devices with one device in it.
class PciDevices {
  public:
    PciDevices() { std::filesystem::create_directory(device()); }

    const std::filesystem::path& root() const { return root_; }
    void write(const std::string& file, const std::string& text) { std::ofstream(device() / file) << text << '\n'; }

  private:
    std::filesystem::path device() const { return root_ / "0000:1b:00.0"; }
    test::ScratchFolder folder_;
    std::filesystem::path root_ = folder_.path();
};

TEST(PciLink, ReadsGenerationWidthAndNumaNode) {
    PciDevices devices;
    devices.write("current_link_speed", "32.0 GT/s PCIe");
    devices.write("current_link_width", "16");
    devices.write("numa_node", "1");
    const PciLink link = read_pci_link("0000:1B:00.0", devices.root());
    EXPECT_EQ(link.address, "0000:1b:00.0");
    EXPECT_EQ(link.generation, 5);
    EXPECT_EQ(link.width, 16);
    EXPECT_EQ(link.numa_node, 1);
}

TEST(PciLink, KnowsEveryGeneration) {
    PciDevices devices;
    int generation = 1;
    for (const char* const speed :
         {"2.5 GT/s PCIe", "5.0 GT/s PCIe", "8.0 GT/s PCIe", "16.0 GT/s PCIe", "32.0 GT/s PCIe", "64.0 GT/s PCIe"}) {
        devices.write("current_link_speed", speed);
        EXPECT_EQ(read_pci_link("0000:1b:00.0", devices.root()).generation, generation++) << speed;
    }
}

TEST(PciLink, LeavesMissingFactsUnknown) {
    PciDevices devices;
    devices.write("current_link_speed", "Unknown");
    devices.write("current_link_width", "");
    devices.write("numa_node", "-1");
    for (const char* const address : {"0000:1b:00.0", "0000:ff:00.0"}) {
        const PciLink link = read_pci_link(address, devices.root());
        EXPECT_EQ(link.generation, 0);
        EXPECT_EQ(link.width, 0);
        EXPECT_EQ(link.numa_node, -1);
    }
}

TEST(HostMemory, WritesHumanReadableSizes) {
    EXPECT_EQ(byte_count(0), "0 bytes");
    EXPECT_EQ(byte_count(4096), "4096 bytes");
    EXPECT_EQ(byte_count(std::size_t{64} << 20), "67108864 bytes (64.00 MiB)");
    EXPECT_EQ(byte_count(1'409'286'144), "1409286144 bytes (1.31 GiB)");
}

TEST(HostMemory, KnowsThisMachine) {
    EXPECT_GT(free_host_memory(), 0U);
    EXPECT_GE(total_host_memory(), free_host_memory());
}

}  // namespace
}  // namespace offramp
