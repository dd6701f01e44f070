#include "producer/broker/run_records.hpp"

#include <algorithm>

#include "common/base/error.hpp"
#include "common/base/failpoint.hpp"
#include "common/wire/ledger_layout.hpp"

namespace offramp {
namespace {

constexpr ProgressRecord kNothing{};

}  // namespace

ProgressLog::ProgressLog(RunProgress& memory) : memory_(memory) {
    const std::uint64_t sequence = load_word(memory_.current);
    if (sequence != 0 && memory_.records[sequence & 1].sequence != sequence)
        throw ProtocolError("the run's progress record is broken: it selects copy " + std::to_string(sequence) +
                                ", and that copy has the number " +
                                std::to_string(memory_.records[sequence & 1].sequence),
                            "Another process wrote to the ledger: start the run again");
}

void ProgressLog::count(CountedStep step, const PublishedSlab& slab, std::uint64_t generation, bool was_lost) {
    const std::uint64_t sequence = load_word(memory_.current) + 1;
    ProgressRecord& next = memory_.records[sequence & 1];
    next = current();
    next.sequence = sequence;
    next.step = static_cast<std::uint64_t>(step);
    next.slab = slab.slab;
    next.generation = generation;
    next.step_items_through = slab.items_through;
    switch (step) {
        case CountedStep::Publish:
            next.published += slab.totals();
            next.skipped += slab.skipped;
            next.dropped += slab.dropped;
            next.items_through = std::max(next.items_through, slab.items_through);
            break;
        case CountedStep::Complete:
            next.completed += slab.totals();
            break;
        case CountedStep::DeadLetter:
            next.dead_letters += slab.totals();
            if (!was_lost) next.first_dead_letters += slab.totals();
            break;
        case CountedStep::Drop:
            next.published -= slab.totals();
            next.dropped += slab.samples;
            next.dropped_waiting += slab.totals();
            if (!was_lost) next.first_dropped += slab.totals();
            break;
        case CountedStep::None:
            break;
    }
    failpoint("progress.written");
    store_word(memory_.current, sequence);
}

SlabLedger::LastStep ProgressLog::last_step() const {
    const ProgressRecord& record = current();
    return {static_cast<CountedStep>(record.step), static_cast<std::uint32_t>(record.slab), record.generation,
            record.step_items_through};
}

const ProgressRecord& ProgressLog::current() const {
    const std::uint64_t sequence = load_word(memory_.current);
    return sequence == 0 ? kNothing : memory_.records[sequence & 1];
}

}  // namespace offramp
