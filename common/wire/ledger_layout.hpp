#pragma once

#include <array>
#include <atomic>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <type_traits>

// The bytes of the ledger object and of the heartbeats object. They record which process may use which slab, and
// survive crashes. A run with groups of consumers has both objects for each group.
//
//   ledger object       LedgerHeader (512 bytes)
//                       LedgerConsumer[consumer_capacity]   64 bytes each
//                       SlabEntry[slab_count]              128 bytes each
//                       RunProgress (1024 bytes)            its progress record: run_progress.hpp
//   heartbeats object   HeartbeatRecord[consumer_capacity]  64 bytes each
//
// Only the producer's broker thread writes the ledger; all others map it read-only. A consumer writes only its own
// heartbeat record. Every change is one store of one aligned 64-bit word. A change of two words orders them so that a
// death in between leaves a state that the next producer repairs (listed in producer/ledger/slab_ledger.hpp).
//
// Slab word, most significant bits first:   state:4 | attempt:12 | generation:48
// Holder word:                              used:1 | attempt:12 | consumer index:11 | session:40        (0: free place)
// Work word of a heartbeat record:          slab:20 | attempt:12 | generation:32 (its low bits)        (0: idle)
//
// Version rule: like the slab header's, with kLedgerVersion.
namespace offramp {

inline constexpr std::uint64_t kLedgerMagic = 0x524447454c46464fULL;  // "OFFLEGDR"
inline constexpr std::uint32_t kLedgerVersion = 3;
inline constexpr std::uint32_t kMaxHolders = 8;
inline constexpr std::uint32_t kMaxConsumers = 1U << 11;
inline constexpr std::uint32_t kMaxSlabs = 1U << 20;
inline constexpr std::uint32_t kMaxAttempt = (1U << 12) - 1;

enum class SlabState : std::uint8_t { Free = 0, Filling = 1, Ready = 2, Leased = 3, Retired = 4, DeadLettered = 5 };
inline constexpr std::size_t kSlabStates = 6;

struct LedgerHeader {
    std::uint64_t magic;
    std::uint32_t version;
    std::uint32_t epoch;
    std::uint64_t run_nonce;
    std::uint32_t slab_count;
    std::uint32_t consumer_capacity;
    std::uint32_t slabs_per_span;
    std::uint32_t span_count;
    std::uint64_t slab_bytes;    // distance from one slab to the next in its span; a multiple of the page size
    std::uint64_t header_bytes;  // of each slab
    std::uint64_t producer_pid;
    std::uint64_t producer_start_time;  // field 22 of /proc/PID/stat, in clock ticks since boot
    std::array<char, 64> run_id;
    std::array<std::uint8_t, 376> reserved;
};

struct LedgerConsumer {
    std::uint64_t session;  // 0: the entry is free. Stored last, cleared first
    std::uint64_t pid;
    std::uint64_t start_time;  // field 22 of /proc/PID/stat
    std::uint64_t uid;
    std::uint64_t token;  // from its Hello: the token continues the session
    std::array<std::uint64_t, 3> reserved;
};

struct SlabEntry {
    std::uint64_t word;      // state, attempt, generation
    std::uint64_t failures;  // of this filling: deaths that it may have caused, and failures that consumers reported
    std::array<std::uint64_t, kMaxHolders> holders;
    std::uint64_t lost;  // the generation that a group of consumers lost for the whole run; 0: none
    std::array<std::uint64_t, 5> reserved;
};

struct HeartbeatRecord {
    std::uint64_t work;      // the delivery in progress; a death counts against it
    std::uint64_t progress;  // any change is a sign of life
    std::uint64_t session;
    std::uint64_t busy_ns;  // processing time; this and the fields below are for status pages only
    std::uint64_t slabs;
    std::uint64_t samples;
    std::uint64_t bytes;
    std::uint64_t reserved;
};

static_assert(sizeof(LedgerHeader) == 512 && std::has_unique_object_representations_v<LedgerHeader>);
static_assert(offsetof(LedgerHeader, slab_bytes) == 40 && offsetof(LedgerHeader, run_id) == 72);
static_assert(sizeof(LedgerConsumer) == 64 && std::has_unique_object_representations_v<LedgerConsumer>);
static_assert(sizeof(SlabEntry) == 128 && std::has_unique_object_representations_v<SlabEntry>);
static_assert(sizeof(HeartbeatRecord) == 64 && std::has_unique_object_representations_v<HeartbeatRecord>);
static_assert(std::atomic_ref<std::uint64_t>::is_always_lock_free);

// --- the packed words ---

struct SlabWord {
    SlabState state = SlabState::Free;
    std::uint32_t attempt = 0;
    std::uint64_t generation = 0;

    bool operator==(const SlabWord&) const = default;
    constexpr std::uint64_t pack() const {
        return (static_cast<std::uint64_t>(state) << 60) | (static_cast<std::uint64_t>(attempt & kMaxAttempt) << 48) |
               (generation & ((std::uint64_t{1} << 48) - 1));
    }
    static constexpr SlabWord unpack(std::uint64_t word) {
        return {static_cast<SlabState>(word >> 60), static_cast<std::uint32_t>(word >> 48) & kMaxAttempt,
                word & ((std::uint64_t{1} << 48) - 1)};
    }
};

struct HolderWord {
    bool used = false;
    std::uint32_t attempt = 0;
    std::uint32_t consumer_index = 0;  // in the table of consumers
    std::uint64_t session = 0;

    bool operator==(const HolderWord&) const = default;
    constexpr std::uint64_t pack() const {
        if (!used) return 0;
        return (std::uint64_t{1} << 63) | (static_cast<std::uint64_t>(attempt & kMaxAttempt) << 51) |
               (static_cast<std::uint64_t>(consumer_index & (kMaxConsumers - 1)) << 40) |
               (session & ((std::uint64_t{1} << 40) - 1));
    }
    static constexpr HolderWord unpack(std::uint64_t word) {
        return {(word >> 63) != 0, static_cast<std::uint32_t>(word >> 51) & kMaxAttempt,
                static_cast<std::uint32_t>(word >> 40) & (kMaxConsumers - 1), word & ((std::uint64_t{1} << 40) - 1)};
    }
};

struct WorkWord {
    std::uint32_t slab = 0;
    std::uint32_t attempt = 0;
    std::uint32_t generation_low = 0;

    bool operator==(const WorkWord&) const = default;
    constexpr std::uint64_t pack() const {
        return (static_cast<std::uint64_t>(slab & (kMaxSlabs - 1)) << 44) |
               (static_cast<std::uint64_t>(attempt & kMaxAttempt) << 32) | generation_low;
    }
    static constexpr WorkWord unpack(std::uint64_t word) {
        return {static_cast<std::uint32_t>(word >> 44), static_cast<std::uint32_t>(word >> 32) & kMaxAttempt,
                static_cast<std::uint32_t>(word)};
    }
};

// A session: random bits of the run:16 | number of the admission in the run, from 1:24. Users see only the latter.
constexpr std::uint64_t first_session_of(std::uint64_t run_nonce) { return ((run_nonce >> 48) << 24) | 1; }
constexpr std::uint64_t admission_of(std::uint64_t session) { return session & ((std::uint64_t{1} << 24) - 1); }

// Generations and attempts count from 1, so that the work word of a delivery is never 0.

inline std::uint64_t load_word(const std::uint64_t& word) {
    return std::atomic_ref<std::uint64_t>(const_cast<std::uint64_t&>(word)).load(std::memory_order_acquire);
}
inline void store_word(std::uint64_t& word, std::uint64_t value) {
    std::atomic_ref<std::uint64_t>(word).store(value, std::memory_order_release);
}

// Names one delivery of one filling of one slab: the only reference to a slab that crosses a process boundary. `epoch`
// counts the producers of a run, `generation` the fillings of the slab, `attempt` the deliveries of the filling. A
// ticket is valid while slab, generation and attempt match the ledger; nothing else is compared.
struct SlabTicket {
    std::uint32_t epoch = 0;
    std::uint32_t slab = 0;
    std::uint64_t generation = 0;
    std::uint32_t attempt = 0;
    std::uint32_t reserved = 0;

    auto operator<=>(const SlabTicket&) const = default;
};
static_assert(sizeof(SlabTicket) == 24 && std::has_unique_object_representations_v<SlabTicket>);

}  // namespace offramp
