#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "common/shm/shared_region.hpp"
#include "consumer/session/run_views.hpp"
#include "producer/broker/peers.hpp"
#include "producer/recovery/run_recovery.hpp"
#include "tests/simulation/plan.hpp"
#include "tests/support/held_run.hpp"
#include "tests/support/scratch_folder.hpp"

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
const HeartbeatRecord& heartbeat_at_death(std::uint32_t group, std::uint32_t consumer_index);

// Called at each failpoint that a process passes or dies at.
void at_failpoints(std::function<void(std::string_view name)> look);

// Until it has room again, no slab can be spilled.
void set_disk_full(bool is_full);
bool is_disk_full();
// Since the last call.
std::uint64_t take_refused_writes();

// The groups of a run: one without a name, or kGroups.
std::vector<ConsumerGroup> groups_of(const Setup& setup);

// The memory of runs with these slabs and groups: created once, used by one history after another.
class SharedObjects {
  public:
    explicit SharedObjects(const Setup& setup);
    // As at the start of a run.
    void reset();

    LedgerHeader& header(std::uint32_t group);
    std::span<std::byte> slab(std::uint32_t slab) {
        return span_.bytes().subspan(slab * layout_.slab_bytes, layout_.slab_bytes);
    }
    RunMemory& memory(std::uint32_t group) { return memory_[group]; }
    SlabMappings& mappings(std::uint32_t group) { return mappings_[group]; }
    std::uint32_t groups() const { return static_cast<std::uint32_t>(memory_.size()); }
    const SlabLayout& layout() const { return layout_; }
    const RunNames& names() const { return run_.names(); }
    RunRecovery::Layout recovery_layout(const std::vector<ConsumerGroup>& groups) const {
        return {run_.names(), layout_, spans_, kCapacity, groups};
    }
    // Where dead letters and spilled slabs are written.
    const std::string& folder() const { return folder_.path(); }

  private:
    HeldRun run_;
    test::ScratchFolder folder_{test::ScratchFolder::On::Memory};
    SlabLayout layout_;
    SpanPlan spans_;
    SharedRegion span_;
    // by group
    std::vector<RunMemory> memory_;
    std::vector<SlabMappings> mappings_;  // consumers' view: the ledger and the slabs read-only
    std::vector<LedgerHeader> first_headers_;
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
