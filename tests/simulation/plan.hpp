#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "common/shm/group_policy.hpp"

namespace offramp::simulation {

// One choice of the scheduler. What it needs (a living consumer, a granted slab) may be missing: then it does nothing.
enum class Action : std::uint8_t {
    Fill,          // the producer writes the next batch into a granted slab
    Publish,       // publishes the oldest filled slab, or abandons the newest
    Drop,          // without a granted slab: drops the next batch
    WriteLetter,   // a dead letter's payload is written, or cannot be
    FillDisk,      // the disk of spilled slabs is full, or has room again
    EndInput,      // the source is at its end: no batch is left
    StepBroker,    // the broker's step
    Deliver,       // some messages of one connection arrive
    Turn,          // a consumer exchanges messages and looks for the death of its producer
    Take,          // a consumer begins its next slab
    Progress,      // a consumer shows a sign of life
    Finish,        // a consumer completes, returns, fails or rejects its slab
    Wait,          // milliseconds pass
    Watch,         // seconds pass, and the broker runs meanwhile
    Sleep,         // seconds or minutes pass, and no process runs
    Join,          // a new consumer
    Leave,         // SIGTERM for a consumer
    Stop,          // SIGSTOP for a consumer
    Continue,      // SIGCONT
    KillConsumer,  // at once
    FuseConsumer,  // at one of its next failpoints
    NoticeDeath,   // a pidfd becomes readable
    KillProducer,  // at once
    FuseProducer,  // at one of its next failpoints, between two stores
    Recover,       // the next producer continues the run
};
inline constexpr std::size_t kActions = static_cast<std::size_t>(Action::Recover) + 1;
std::string_view name_of(Action action);

struct Step {
    Action action{};
    std::uint32_t who = 0;  // chooses among those that can take the step
    std::uint32_t how = 0;  // its variant
};

inline constexpr std::uint32_t kGroups = 3;  // of a run with groups: two required, one optional

struct Setup {
    std::uint32_t slabs = 1;
    std::uint32_t groups = 1;     // 1: without a name; else kGroups
    std::uint32_t consumers = 1;  // of each group, at the start
    std::uint32_t batches = 1;
    std::uint32_t window = 1;
    std::uint32_t queue = 1024;  // messages that a connection takes before it is full
    std::uint32_t max_failures = 3;
    bool kill_stalled = false;
    bool inline_dispatch = false;
    bool begins_settled = false;                // the first consumers are admitted already
    bool opens_late = false;                    // consumers open their window once they are admitted
    bool abort_at_end = false;                  // stop --now instead of the end of input
    std::array<WhenFull, kGroups> when_full{};  // of each group, without a free slab
    bool keeps_letters = false;                 // dead letters are written before their slabs are free

    // The egress waits for a slab, so that one is dropped or spilled for it.
    bool makes_room() const { return when_full != decltype(when_full){}; }
};

// A history before it is run. Removing a step leaves the meaning of the others, so that a failing one can be shortened.
struct Plan {
    Setup setup;
    std::vector<Step> steps;

    static Plan from_seed(std::uint64_t seed);
};

// A planted error in the simulated environment, which the checks must find (simulation --twin NAME).
enum class Twin : std::uint8_t {
    None,
    StoppedIsDead,         // a stopped consumer's pidfd becomes readable
    DeathUnnoticed,        // no pidfd ever becomes readable
    ReadsAfterRelease,     // a consumer releases a slab as soon as it has begun to read it
    CompletesUnprocessed,  // a consumer completes slabs without committing results
    LosesMessages,         // a connection between the living loses a message
    SwapsMessages,         // a connection swaps two messages
    ForgetsHoldings,       // a consumer does not report its slabs to the next producer
    LateCopy,              // a byte of a slab is written after its publication
    LosesLastCount,        // the progress record of a dead producer lacks its last step
    ForgetsLost,           // the ledgers of a dead producer lack the marks of lost slabs
    HoldsPool,             // slabs wait for the optional group
    ListsNoDrop,           // an oldest slab that is dropped is not listed
    SpoilsLetter,          // a byte of a slab changes while it is written as a dead letter
    ForgetsDrop,           // the ledgers of the other groups lack the mark of a slab that a required group drops
    ForgetsLostFile,       // the files of a dead producer lack the marks of lost slabs
    RemovesReadFile,       // a file is removed before its slab is published again
    KeepsGeneration,       // the generation of a slab that a group reads back is not raised in the others
    SpoilsFile,            // a byte of a spilled slab is another one on the disk
};
inline constexpr std::size_t kTwins = static_cast<std::size_t>(Twin::SpoilsFile) + 1;
std::string_view name_of(Twin twin);

// Small, fast, and equal on every machine.
class Random {
  public:
    explicit Random(std::uint64_t seed) : state_(seed) {}
    std::uint64_t next() {
        std::uint64_t z = (state_ += 0x9e3779b97f4a7c15ULL);
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
        return z ^ (z >> 31);
    }
    // 0 to n - 1
    std::uint32_t below(std::uint32_t n) { return static_cast<std::uint32_t>((next() >> 32) * n >> 32); }
    bool one_in(std::uint32_t n) { return below(n) == 0; }

  private:
    std::uint64_t state_;
};

}  // namespace offramp::simulation
