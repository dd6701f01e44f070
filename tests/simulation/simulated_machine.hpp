#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <stdexcept>

#include "common/shm/shared_region.hpp"
#include "consumer/session/run_views.hpp"
#include "producer/broker/peers.hpp"
#include "producer/recovery/run_recovery.hpp"
#include "tests/support/held_run.hpp"

// What the processes of a simulated run share: memory, deaths, and the failpoints at which they die.
namespace offramp::simulation {

inline constexpr std::uint32_t kBatch = 4;      // samples
inline constexpr std::uint32_t kCapacity = 16;  // consumers

// The contents of a batch follow from its number.
inline constexpr std::size_t kPayloadWords = 8;
std::uint64_t payload_word(std::uint64_t batch, std::size_t word);
std::uint32_t empty_row(std::uint64_t batch);  // kBatch: none
inline std::uint32_t samples_of(std::uint64_t batch) { return empty_row(batch) == kBatch ? kBatch : kBatch - 1; }

// A promise that a history breaks.
struct Violation : std::runtime_error {
    using std::runtime_error::runtime_error;
};

// Unwinds a process that dies at a failpoint. Not an exception of the product: nothing there catches it.
struct Died {
    const char* failpoint;
};

// A process dies at the failpoint that uses up its fuse. 0: at none.
struct Fuse {
    std::uint32_t left = 0;
};

// Until its end, failpoints use up this fuse.
class Acting {
  public:
    explicit Acting(Fuse& fuse);
    ~Acting();
    Acting(const Acting&) = delete;
    Acting& operator=(const Acting&) = delete;

  private:
    Fuse* const before_;
};

// The record as it was when a process last died at a failpoint: unwinding writes to it, and a killed process does not
// unwind.
const HeartbeatRecord& heartbeat_at_death(std::uint32_t consumer_index);

// The memory of runs with this number of slabs: created once, used by one history after another.
class SharedObjects {
  public:
    explicit SharedObjects(std::uint32_t slabs);
    // As at the start of a run.
    void reset();

    LedgerHeader& header();
    std::span<std::byte> slab(std::uint32_t slab) {
        return span_.bytes().subspan(slab * layout_.slab_bytes, layout_.slab_bytes);
    }
    RunMemory& memory() { return memory_; }
    SlabMappings& mappings() { return mappings_; }
    const SlabLayout& layout() const { return layout_; }
    const RunNames& names() const { return run_.names(); }
    RunRecovery::Layout recovery_layout() const { return {run_.names(), layout_, spans_, kCapacity}; }

  private:
    HeldRun run_;
    SlabLayout layout_;
    SpanPlan spans_;
    RunMemory memory_;
    SharedRegion span_;
    SlabMappings mappings_;  // consumers' view: the ledger and the slabs read-only
    LedgerHeader first_header_;
};

// Processes as the broker sees them. A death becomes visible when the scheduler says so.
class SimulatedWatch final : public PeerWatch {
  public:
    SimulatedWatch() = default;
    ~SimulatedWatch() override;
    std::optional<WatchedProcess> open(pid_t pid) override;
    int kill(int pidfd) override;

    void begin(pid_t pid);
    void announce_death(pid_t pid);
    std::function<void(pid_t)> on_kill;

  private:
    struct Process {
        int fd = -1;
        bool announced = false;
    };
    std::map<pid_t, Process> processes_;
    std::map<int, pid_t> watched_;
};

}  // namespace offramp::simulation
