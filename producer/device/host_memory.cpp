#include "producer/device/host_memory.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <utility>
#include <vector>

#include "common/base/error.hpp"
#include "common/base/log.hpp"
#include "common/base/remedy.hpp"

namespace offramp {

std::string byte_count(std::size_t bytes) {
    std::string text = std::to_string(bytes) + " bytes";
    static constexpr std::array<std::pair<const char*, int>, 3> kUnits{{{"GiB", 30}, {"MiB", 20}, {"KiB", 10}}};
    for (const auto& [unit, shift] : kUnits) {
        if (bytes < (std::size_t{10} << 10) || (bytes >> shift) == 0) continue;
        std::array<char, 48> rounded{};
        std::snprintf(rounded.data(), rounded.size(), " (%.2f %s)",
                      static_cast<double>(bytes) / static_cast<double>(std::size_t{1} << shift), unit);
        return text + rounded.data();
    }
    return text;
}

std::size_t total_host_memory() {
    const long pages = ::sysconf(_SC_PHYS_PAGES);
    const long page_bytes = ::sysconf(_SC_PAGESIZE);
    if (pages <= 0 || page_bytes <= 0) return 0;
    return static_cast<std::size_t>(pages) * static_cast<std::size_t>(page_bytes);
}

std::size_t free_host_memory() {
    std::ifstream meminfo("/proc/meminfo");
    for (std::string key; meminfo >> key;) {
        std::size_t kibibytes = 0;
        if (key == "MemAvailable:" && meminfo >> kibibytes) return kibibytes << 10;
        meminfo.ignore(256, '\n');
    }
    return 0;
}

void expect_pinnable(std::span<std::byte> range) {
    expect(!range.empty(), "a range to page-lock is not empty");
    expect(range.size() <= kMaxRegistrationBytes, "at most 64 GiB are page-locked by one call");
}

double timed_copy_into(Device& device, std::span<std::byte> range) {
    expect(!range.empty(), "a range to prove is not empty");
    const std::size_t bytes = std::min(range.size(), kProofBytes);
    const std::unique_ptr<DeviceBuffer> source = device.allocate(bytes, "the proof of page-locking");
    const std::unique_ptr<Event> start = device.make_event(Device::Timing::On);
    const std::unique_ptr<Event> end = device.make_event(Device::Timing::On);
    const std::unique_ptr<Stream> stream = device.make_stream("prove pinned");
    // Write it once: reading memory that was never written copies one shared page of zeroes on the CPU, and is an error
    // to sanitizers.
    stream->copy_to_device(source->data(), range.data(), bytes);
    stream->copy_to_host(range.data(), source->data(), bytes);
    stream->record(*start);
    stream->copy_to_host(range.data(), source->data(), bytes);
    stream->record(*end);
    end->wait();
    const double seconds = end->seconds_since(*start);
    return seconds > 0 ? static_cast<double>(bytes) / seconds / 1e9 : 0;
}

namespace {

constexpr std::size_t kProvedBytes = std::size_t{256} << 20;

}  // namespace

std::shared_ptr<void> Pinning::lock(std::span<std::byte> range) {
    device_.use_on_this_thread();
    std::shared_ptr<void> registration;
    if (options_.wanted) registration = device_.pin(range);
    const std::lock_guard lock(mutex_);
    if (options_.proved && !is_proved_) prove(range);
    return registration;
}

PinningProof Pinning::proof() const {
    const std::lock_guard lock(mutex_);
    return proof_;
}

void Pinning::prove(std::span<std::byte> range) {
    proof_ = device_.prove_pinned(range.first(std::min(range.size(), kProvedBytes)));
    if (device_.is_gpu() && !proof_.registered && options_.wanted)
        throw Error(ErrorKind::DeviceUnsupported,
                    "the slabs could not be page-locked: CUDA does not recognize them as page-locked memory",
                    remedy(Remedy::PageLocking));
    spdlog::info("slabs are {}: {:.1f} GB/s into them", proof_.registered ? "page-locked" : "ordinary memory",
                 proof_.gigabytes_per_second);
    is_proved_ = true;
}

}  // namespace offramp
