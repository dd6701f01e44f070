#include "producer/device/pci_link.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <fstream>

namespace offramp {
namespace {

int read_number(const std::filesystem::path& file, int otherwise) {
    std::ifstream stream(file);
    int number = 0;
    return stream >> number ? number : otherwise;
}

// The file says "32.0 GT/s PCIe".
int read_generation(const std::filesystem::path& file) {
    static constexpr std::array<double, 6> kTransfers{2.5, 5, 8, 16, 32, 64};
    std::ifstream stream(file);
    double transfers = 0;
    if (!(stream >> transfers)) return 0;
    const auto* const found = std::find(kTransfers.begin(), kTransfers.end(), transfers);
    return found == kTransfers.end() ? 0 : static_cast<int>(found - kTransfers.begin()) + 1;
}

}  // namespace

PciLink read_pci_link(const std::string& address, const std::filesystem::path& devices) {
    PciLink link;
    link.address = address;
    std::transform(address.begin(), address.end(), link.address.begin(),
                   [](unsigned char letter) { return static_cast<char>(std::tolower(letter)); });
    const std::filesystem::path folder = devices / link.address;
    link.generation = read_generation(folder / "current_link_speed");
    link.width = std::max(0, read_number(folder / "current_link_width", 0));
    link.numa_node = read_number(folder / "numa_node", -1);
    return link;
}

}  // namespace offramp
