#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "producer/device/device.hpp"

namespace offramp {

// The contract of every Device; the parameter is a word for open_device(). Skips, visibly, without the
// device.
class DeviceContract : public testing::TestWithParam<std::string> {
  protected:
    void SetUp() override;

    Device& device() { return *device_; }

    // Device memory that holds these bytes.
    std::unique_ptr<DeviceBuffer> upload(std::span<const std::byte> bytes);
    std::vector<std::byte> download(const DeviceBuffer& buffer);
    std::unique_ptr<Event> record_on(Stream& stream);

  private:
    std::unique_ptr<Device> device_;
};

using DeviceContractDeathTest = DeviceContract;

// Defined by each program that contains the suite.
std::vector<std::string> devices_under_test();

// Names a case by its device: "cpu".
inline std::string device_name(const testing::TestParamInfo<std::string>& parameter) { return parameter.param; }

// Bytes that differ by seed and by position.
std::vector<std::byte> patterned_bytes(std::size_t count, std::uint32_t seed);

template <class Element>
std::vector<std::byte> bytes_of(const std::vector<Element>& elements) {
    std::vector<std::byte> bytes(elements.size() * sizeof(Element));
    if (!bytes.empty()) std::memcpy(bytes.data(), elements.data(), bytes.size());
    return bytes;
}

}  // namespace offramp
