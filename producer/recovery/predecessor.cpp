#include "producer/recovery/predecessor.hpp"

#include <algorithm>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>

#include "common/base/error.hpp"
#include "common/base/files.hpp"
#include "common/shm/shared_region.hpp"
#include "common/wire/slab_view.hpp"

namespace offramp {
namespace {

PublishedSlab read_slab(std::span<const std::byte> bytes, std::uint64_t nonce, const SlabTicket& ticket,
                        const BatchNumbers& numbers) {
    const SlabContents contents = SlabContents::read(bytes, nonce, ticket);
    if (contents.batches.empty())
        throw ProtocolError("slab " + std::to_string(ticket.slab) + " was published without a batch");
    PublishedSlab slab{
        .slab = ticket.slab, .first_batch = contents.batches.front().batch, .filled_at_ns = contents.filled_at_ns};
    for (const BatchRecord& piece : contents.batches) {
        const std::uint64_t begin = numbers.begin_of(piece.batch);
        if (begin >= numbers.items)
            throw ProtocolError("slab " + std::to_string(ticket.slab) + " holds batch " + std::to_string(piece.batch) +
                                ", but the source has only " + std::to_string(numbers.items) + " items");
        const std::uint64_t rows = numbers.begin_of(piece.batch + 1) - begin;
        slab.batches_ended += piece.first_row + piece.rows == rows ? 1U : 0U;
        slab.items_through = std::max(slab.items_through, begin + piece.first_row + piece.rows);
    }
    for (const SampleView& sample : contents.samples) {
        if (sample.empty) continue;
        ++slab.samples;
        append_item(slab.items, sample.item);
    }
    slab.bytes = contents.tensor_bytes();
    slab.filling = slab.items_through;
    return slab;
}

std::vector<PublishedSlab> read_slabs(std::initializer_list<SlabState> states, const SlabLedger& ledger,
                                      const RunNames& names, const SpanPlan& spans, const BatchNumbers& numbers) {
    std::vector<PublishedSlab> found;
    std::optional<SharedRegionView> span;
    std::uint32_t mapped = 0;
    for (std::uint32_t slab = 0; slab < ledger.slab_count(); ++slab) {
        const SlabWord word = ledger.word(slab);
        if (std::find(states.begin(), states.end(), word.state) == states.end()) continue;
        if (!span || mapped != spans.span_of(slab)) {
            mapped = spans.span_of(slab);
            span = SharedRegionView::attach(names.span(mapped), SharedRegionView::Access::ReadOnly,
                                            spans.span_bytes(mapped));
        }
        const SlabTicket ticket{
            .epoch = ledger.epoch(), .slab = slab, .generation = word.generation, .attempt = word.attempt};
        found.push_back(read_slab(span->bytes().subspan(spans.offset_in_span(slab), spans.slab_bytes), names.nonce,
                                  ticket, numbers));
    }
    std::sort(found.begin(), found.end(),
              [](const PublishedSlab& a, const PublishedSlab& b) { return a.items_through < b.items_through; });
    return found;
}

std::vector<SpilledSlab> read_spilled(const SpillStore& store, const SlabLedger& ledger, const RunNames& names,
                                      const BatchNumbers& numbers, const std::vector<PublishedSlab>& in_flight) {
    std::vector<SpilledSlab> spilled;
    for (const SpilledFile& file : store.left_there()) {
        if (file.slab >= ledger.slab_count())
            throw ProtocolError(file.path + " belongs to slab " + std::to_string(file.slab) + ", but the run has " +
                                std::to_string(ledger.slab_count()));
        const MappedFile bytes(file.path);
        const SlabTicket ticket{
            .epoch = ledger.epoch(), .slab = file.slab, .generation = file.generation, .attempt = 0};
        const PublishedSlab published = read_slab(bytes.bytes(), names.nonce, ticket, numbers);
        const bool waits_in_memory =
            ledger.word(file.slab).generation == file.generation ||
            std::any_of(in_flight.begin(), in_flight.end(), [&](const PublishedSlab& slab) {
                return slab.items_through == published.items_through && slab.samples == published.samples;
            });
        if (waits_in_memory)
            SpillStore::remove(file);
        else
            spilled.push_back({file, published});
    }
    std::sort(spilled.begin(), spilled.end(), [](const SpilledSlab& a, const SpilledSlab& b) {
        return a.published.items_through < b.published.items_through;
    });
    return spilled;
}

}  // namespace

PublishedSlab read_filled_slab(std::uint32_t slab, SlabWord word, std::uint32_t epoch, const RunNames& names,
                               const SpanPlan& spans, const BatchNumbers& numbers) {
    const std::uint32_t number = spans.span_of(slab);
    const auto span =
        SharedRegionView::attach(names.span(number), SharedRegionView::Access::ReadOnly, spans.span_bytes(number));
    const SlabTicket ticket{.epoch = epoch, .slab = slab, .generation = word.generation, .attempt = word.attempt};
    return read_slab(span.bytes().subspan(spans.offset_in_span(slab), spans.slab_bytes), names.nonce, ticket, numbers);
}

ItemRanges Predecessor::waiting() const {
    ItemRanges waiting;
    const auto note = [&waiting](const PublishedSlab& slab) {
        for (const ItemRange& range : slab.items) waiting.add(range);
    };
    for (const PublishedSlab& slab : in_flight) note(slab);
    for (const SpilledSlab& slab : spilled) note(slab.published);
    return waiting;
}

Predecessor read_predecessor(const SlabLedger& ledger, const ProgressRecord& totals, const RunNames& names,
                             const SpanPlan& spans, const BatchNumbers& numbers, const SpillStore* spill) {
    Predecessor predecessor{
        .totals = totals,
        .in_flight = read_slabs({SlabState::Ready, SlabState::Leased}, ledger, names, spans, numbers),
        .dead_letters = read_slabs({SlabState::DeadLettered}, ledger, names, spans, numbers)};
    if (spill != nullptr) predecessor.spilled = read_spilled(*spill, ledger, names, numbers, predecessor.in_flight);
    return predecessor;
}

void require_conserved(const Predecessor& predecessor) {
    const ProgressRecord& totals = predecessor.totals;
    SlabTotals there;
    std::uint64_t through = 0;
    const auto count = [&](const PublishedSlab& slab) {
        there += slab.totals();
        through = std::max(through, slab.items_through);
    };
    for (const PublishedSlab& slab : predecessor.in_flight) count(slab);
    for (const SpilledSlab& slab : predecessor.spilled) count(slab.published);
    const bool adds_up = [&] {
        for (const auto unit : {&SlabTotals::slabs, &SlabTotals::batches, &SlabTotals::samples, &SlabTotals::bytes})
            if (totals.published.*unit != totals.completed.*unit + totals.dead_letters.*unit + there.*unit)
                return false;
        return through <= totals.items_through;
    }();
    if (!adds_up)
        throw Error(ErrorKind::CountMismatch,
                    "the run to take over is inconsistent: " + std::to_string(totals.published.samples) +
                        " samples in " + std::to_string(totals.published.slabs) + " slabs published through item " +
                        std::to_string(totals.items_through) + ", " + std::to_string(totals.completed.samples) +
                        " in " + std::to_string(totals.completed.slabs) + " completed, " +
                        std::to_string(totals.dead_letters.samples) + " dead-lettered, but " +
                        std::to_string(there.samples) + " in " + std::to_string(there.slabs) +
                        " are in flight, through item " + std::to_string(through));
}

}  // namespace offramp
