#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "common/wire/ledger_layout.hpp"
#include "common/wire/messages.hpp"
#include "common/wire/run_progress.hpp"

namespace offramp {

// One admitted consumer: its index in the ledger's table, and the session, which distinguishes it from earlier users of
// the index.
struct ConsumerRef {
    std::uint32_t consumer_index = 0;
    std::uint64_t session = 0;

    bool operator==(const ConsumerRef&) const = default;
};

// The effect of a release. Only the first four change anything.
enum class ReleaseOutcome {
    Completed,  // the first of its holders, with any attempt: the slab is done; freed, or Retired while others hold it
    HolderRemoved,  // another holder was first, or the attempt was overtaken: it no longer holds the slab
    Returned,       // returned unprocessed: Ready again
    Failed,         // processing failed: counted, Ready again
    Foreign,        // this consumer holds no such slab
    Stale,          // of an earlier filling of the slab
    Malformed,      // no such slab, or no such kind
};
inline constexpr std::size_t kReleaseOutcomes = 7;
std::string_view to_string(ReleaseOutcome outcome);
std::string_view to_string(SlabState state);

// Decides which process may access which slab. A pure state machine over memory that its caller supplies: no time, no
// allocation on the paths of a run, no sockets, so that it can be tested and model-checked exhaustively.
// common/design/slab-lifecycle.md draws its states.
//
// Borrows: the ledger's memory, which only this object writes while it lives.
// Thread: the broker's. Blocks: never. Errors: an illegal transition is a caller's bug (expect); a consumer's mistakes
// yield a ReleaseOutcome.
//
// Every change is one word, or ordered so that a death in between is repaired by adopt():
// - lease: holder stored, then the state (death between: a Ready slab with a holder, whose consumer is asked or dead)
// - complete: state Retired, holder cleared, then Free, next generation (death between: Retired, no holder: freed)
// - return: holder cleared, then the state (death between: Leased without its holder: made Ready)
// - fail: counted, then as a return (death between: the holder repeats its release, and it is counted twice)
// Counted steps (publish, complete, dead_letter, drop) are counted first (ProgressLog); adopt() takes those not yet
// taken.
class SlabLedger {
  public:
    struct Memory {
        std::span<LedgerConsumer> consumers;
        std::span<SlabEntry> entries;
        std::uint64_t first_session = 1;  // of the run: session numbers are unique across runs (first_session_of)
    };

    // Every slab Free, in its first generation; no consumers.
    static SlabLedger format(Memory memory, std::uint32_t epoch);
    // Takes over an earlier producer's ledger: takes the step that was counted but perhaps not taken, repairs half-done
    // changes, abandons Filling, keeps every recorded holder. Dead letters stay DeadLettered, for the caller. Errors:
    // ProtocolError for words that no producer writes (check_ledger_words).
    struct LastStep {
        CountedStep kind = CountedStep::None;
        std::uint32_t slab = 0;
        std::uint64_t generation = 0;
        std::uint64_t items_through = 0;  // of the slab (PublishedSlab)

        bool operator==(const LastStep&) const = default;
    };
    static SlabLedger adopt(Memory memory, std::uint32_t epoch, const LastStep& last);
    static SlabLedger adopt(Memory memory, std::uint32_t epoch) { return adopt(memory, epoch, LastStep{}); }

    // --- filling ---
    // Free → Filling for the most recently freed slab that `usable` accepts; nothing when there is none.
    std::optional<std::uint32_t> acquire(const std::function<bool(std::uint32_t)>& usable);
    // Free → Filling for this slab, which another group's ledger acquired.
    void acquire_also(std::uint32_t slab);
    bool any_free(const std::function<bool(std::uint32_t)>& wanted) const;
    // Filling → Free, with the next generation: the written bytes are void.
    void abandon(std::uint32_t slab);
    // Filling → Ready.
    void publish(std::uint32_t slab);

    // --- consumers ---
    // Nothing when the table is full. `token`: continues its session after a recovery.
    std::optional<ConsumerRef> admit(std::uint64_t pid, std::uint64_t start_time, std::uint64_t uid,
                                     std::uint64_t token);
    // The admitted consumers of the table.
    struct Admitted {
        ConsumerRef ref;
        std::uint64_t pid = 0;
        std::uint64_t start_time = 0;
        std::uint64_t uid = 0;
        std::uint64_t token = 0;
    };
    std::vector<Admitted> admitted() const;

    // --- delivery ---
    // True when the slab is Ready, has a free holder place, and this consumer does not hold it already.
    bool can_lease(std::uint32_t slab, ConsumerRef consumer) const;
    // Ready → Leased with the next attempt, the holder recorded first. Broken contract unless can_lease().
    SlabTicket lease(std::uint32_t slab, ConsumerRef consumer);
    // Undoes a lease whose ticket could not be sent: Leased → Ready, holder removed.
    void take_back(const SlabTicket& ticket, ConsumerRef consumer);
    // Leased → Ready, with the late holder kept: the same bytes may also go to another consumer. The first to finish
    // completes the slab. Otherwise a step longer than the visibility timeout would be taken from each consumer in
    // turn, without end.
    void expire(std::uint32_t slab);
    // `before_completing`: called if the outcome will be Completed, before the first store.
    ReleaseOutcome release(ConsumerRef consumer, const SlabTicket& ticket, ReleaseKind kind,
                           const std::function<void()>& before_completing = {});

    // Removes a dead consumer from the holders of every slab, and ends its session. Returns the slabs that it held.
    struct Revoked {
        std::uint32_t slab = 0;
        bool counted = false;       // the work word named this delivery
        bool ready_again = false;   // it was the current delivery: the slab waits for another consumer
        std::uint32_t attempt = 0;  // of the delivery that it held
    };
    std::vector<Revoked> revoke(ConsumerRef consumer, std::uint64_t work_word);

    // --- dead letters ---
    // Ready → DeadLettered: withdrawn from delivery.
    void dead_letter(std::uint32_t slab);
    // DeadLettered → Free, or Retired while it has holders.
    void discard(std::uint32_t slab);

    // --- several groups over the same slabs ---
    // A Free slab continues at this generation, which the ledgers of other groups have reached: a death while a slab
    // was acquired or abandoned leaves them one apart.
    void raise_generation(std::uint32_t slab, std::uint64_t generation);
    // A Free slab's next generation: another group fills it for itself.
    void pass_over(std::uint32_t slab);
    // Another group could not process this filling.
    void mark_lost(std::uint32_t slab);
    bool is_lost(std::uint32_t slab) const;

    // --- no free slab ---
    // Ready without holders → Free, with the next generation: its bytes are now on the disk, or were dropped.
    void vacate(std::uint32_t slab);

    // --- queries ---
    std::uint32_t slab_count() const { return static_cast<std::uint32_t>(memory_.entries.size()); }
    std::uint32_t epoch() const { return epoch_; }
    SlabWord word(std::uint32_t slab) const;
    std::uint64_t failures(std::uint32_t slab) const;
    std::vector<HolderWord> holders(std::uint32_t slab) const;
    bool holds(std::uint32_t slab, ConsumerRef consumer) const;
    // Slabs by state. Reads no slab's word: every change updates the counts.
    const std::array<std::uint32_t, kSlabStates>& counts() const { return counts_; }
    std::uint32_t count(SlabState state) const { return counts_[static_cast<std::size_t>(state)]; }

  private:
    SlabLedger(Memory memory, std::uint32_t epoch);
    void store(std::uint32_t slab, SlabWord after);
    void move_to(std::uint32_t slab, SlabState from, SlabState to);
    void free_slab(std::uint32_t slab);
    bool has_holders(std::uint32_t slab) const;
    std::uint64_t* holder_word(std::uint32_t slab, ConsumerRef consumer) const;
    void normalise_after_holder_left(std::uint32_t slab, std::uint32_t its_attempt);
    void take_counted_step(const LastStep& last);
    void repair(std::uint32_t slab);

    Memory memory_;
    std::uint32_t epoch_;
    // Derived from the words: the work per slab must not grow with the pool.
    std::array<std::uint32_t, kSlabStates> counts_{};
    std::vector<std::uint32_t> free_;  // Free slabs, the most recently freed one last; never reallocated
    std::uint64_t next_session_;
};

// Validates a previous producer's ledger before it is used: every state is known, every holder's index is in the table
// of consumers, and no slab is held while it is free or being filled. No death of a producer violates this. Errors:
// ProtocolError names the slab or consumer, the field and its value.
void check_ledger_words(std::span<const LedgerConsumer> consumers, std::span<const SlabEntry> entries);

}  // namespace offramp
