#include "tests/contract/device/device_contract.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <stdexcept>

#include "common/base/unique_fd.hpp"

// Page-locking of memory like a slab's.

namespace offramp {
namespace {

// Like a slab: shared memory, mapped and populated.
class MappedRange {
  public:
    explicit MappedRange(std::size_t bytes) : bytes_(bytes) {
        const UniqueFd file(::memfd_create("device-contract", MFD_CLOEXEC));
        if (!file || ::ftruncate(file.get(), static_cast<off_t>(bytes)) != 0) throw std::runtime_error("memfd_create");
        void* const memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, file.get(), 0);
        if (memory == MAP_FAILED) throw std::runtime_error("mmap");
        memory_ = static_cast<std::byte*>(memory);
    }
    ~MappedRange() { ::munmap(memory_, bytes_); }
    MappedRange(const MappedRange&) = delete;
    MappedRange& operator=(const MappedRange&) = delete;

    std::span<std::byte> bytes() const { return {memory_, bytes_}; }

  private:
    std::byte* memory_ = nullptr;
    std::size_t bytes_;
};

TEST_P(DeviceContract, PageLocksAndUnlocksAMappedRange) {
    constexpr std::size_t kBytes = std::size_t{16} << 20;
    const MappedRange range(kBytes);
    const std::vector<std::byte> bytes = patterned_bytes(kBytes, 2);
    const auto source = upload(bytes);
    const auto stream = device().make_stream("slab");
    EXPECT_FALSE(device().prove_pinned(range.bytes()).registered);
    for (int round = 0; round < 2; ++round) {
        const auto registration = device().pin(range.bytes());
        const PinningProof proof = device().prove_pinned(range.bytes());
        EXPECT_EQ(proof.registered, device().is_gpu());
        EXPECT_GT(proof.gigabytes_per_second, 0.0);
        std::memset(range.bytes().data(), 0, kBytes);
        stream->copy_to_host(range.bytes().data(), source->data(), kBytes);
        stream->synchronize();
        EXPECT_EQ(std::memcmp(range.bytes().data(), bytes.data(), kBytes), 0);
        EXPECT_EQ(device().prove_pinned(range.bytes()).registered, device().is_gpu());
        EXPECT_EQ(std::memcmp(range.bytes().data(), bytes.data(), kBytes), 0) << "the check restores the bytes";
    }
    EXPECT_FALSE(device().prove_pinned(range.bytes()).registered);
}

TEST_P(DeviceContract, DetectsAPartlyPageLockedRange) {
    constexpr std::size_t kBytes = std::size_t{8} << 20;
    const MappedRange range(kBytes);
    const auto registration = device().pin(range.bytes().first(kBytes / 2));
    EXPECT_EQ(device().prove_pinned(range.bytes().first(kBytes / 2)).registered, device().is_gpu());
    EXPECT_FALSE(device().prove_pinned(range.bytes().last(kBytes / 2)).registered);
}

TEST_P(DeviceContractDeathTest, RefusesToPageLockNothingOrTooMuch) {
    EXPECT_DEATH(static_cast<void>(device().pin({})), "broken contract: a range to page-lock is not empty");
    // Never touched: the size alone is refused.
    std::byte one{};
    EXPECT_DEATH(static_cast<void>(device().pin({&one, (std::size_t{64} << 30) + 1})),
                 "broken contract: at most 64 GiB");
}

}  // namespace
}  // namespace offramp
