#include "producer/device/pinning.hpp"

#include <algorithm>

#include "common/base/error.hpp"
#include "common/base/log.hpp"
#include "common/base/remedy.hpp"

namespace offramp {
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
