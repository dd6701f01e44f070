#pragma once

#include <filesystem>
#include <string>

namespace offramp {

// The kernel's current view of a PCI device's link. An idle GPU runs its link at a lower generation to save power.
struct PciLink {
    std::string address;  // as sysfs writes it: "0000:1b:00.0"
    int generation = 0;   // 0: unknown
    int width = 0;        // lanes; 0: unknown
    int numa_node = -1;   // -1: unknown, or a machine with one node
};

// `address` in either case of letters: CUDA writes 1B where sysfs has 1b. Errors: none; values that cannot be read stay
// unknown.
PciLink read_pci_link(const std::string& address, const std::filesystem::path& devices = "/sys/bus/pci/devices");

}  // namespace offramp
