#include "consumer/session/run_views.hpp"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "common/base/error.hpp"
#include "common/base/trace.hpp"
#include "common/wire/messages.hpp"
#include "common/wire/slab_header.hpp"

namespace offramp {
namespace {

constexpr std::uint64_t kMostSlabBytes = std::uint64_t{1} << 43;  // times kMaxSlabs still fits 64 bits

void require(bool holds, const char* field, std::uint64_t found, const std::string& wanted) {
    if (!holds)
        throw ProtocolError("ledger: " + std::string(field) + " is " + std::to_string(found) + ", expected " + wanted,
                            "Use producer and consumers of one build, and the run directory of a live run");
}

std::string between(std::uint64_t least, std::uint64_t most) {
    return std::to_string(least) + " to " + std::to_string(most);
}

void check_geometry(const LedgerHeader& header, std::size_t ledger_bytes) {
    require(header.slab_count >= 1 && header.slab_count <= kMaxSlabs, "slab_count", header.slab_count,
            between(1, kMaxSlabs));
    require(header.consumer_capacity >= 1 && header.consumer_capacity <= kMaxConsumers, "consumer_capacity",
            header.consumer_capacity, between(1, kMaxConsumers));
    const std::size_t wanted_bytes =
        sizeof header + header.consumer_capacity * sizeof(LedgerConsumer) + header.slab_count * sizeof(SlabEntry);
    require(ledger_bytes >= wanted_bytes, "size of the object", ledger_bytes,
            "at least " + std::to_string(wanted_bytes));
    require(header.slabs_per_span >= 1 && header.slabs_per_span <= header.slab_count, "slabs_per_span",
            header.slabs_per_span, between(1, header.slab_count));
    const std::uint32_t spans = (header.slab_count + header.slabs_per_span - 1) / header.slabs_per_span;
    require(header.span_count == spans, "span_count", header.span_count, std::to_string(spans));
    require(
        header.slab_bytes % kPageBytes == 0 && header.slab_bytes >= kPageBytes && header.slab_bytes <= kMostSlabBytes,
        "slab_bytes", header.slab_bytes, "whole pages, " + between(kPageBytes, kMostSlabBytes));
    require(header.header_bytes >= sizeof(SlabHeader) && header.header_bytes <= header.slab_bytes, "header_bytes",
            header.header_bytes, between(sizeof(SlabHeader), header.slab_bytes));
}

const std::uint64_t& word_at(std::span<const std::byte> ledger, std::size_t offset) {
    return *reinterpret_cast<const std::uint64_t*>(ledger.data() + offset);
}

}  // namespace

LedgerView LedgerView::check(std::span<const std::byte> ledger, const RunNames& names) {
    LedgerHeader header{};
    require(ledger.size() >= sizeof header, "size of the object", ledger.size(),
            "at least " + std::to_string(sizeof header));
    require(reinterpret_cast<std::uintptr_t>(ledger.data()) % alignof(LedgerHeader) == 0, "address of the mapping",
            reinterpret_cast<std::uintptr_t>(ledger.data()), "a multiple of 8");
    std::memcpy(&header, ledger.data(), sizeof header);
    require(header.magic == kLedgerMagic, "magic", header.magic, std::to_string(kLedgerMagic));
    require(header.version == kLedgerVersion, "version", header.version, std::to_string(kLedgerVersion));
    require(header.run_nonce == names.nonce, "run_nonce", header.run_nonce, std::to_string(names.nonce));
    if (get_text(header.run_id) != names.run_id)
        throw ProtocolError("ledger: run_id is '" + get_text(header.run_id) + "', expected '" + names.run_id + "'");
    check_geometry(header, ledger.size());
    return {ledger, header};
}

LedgerView::Producer LedgerView::producer() const {
    return {.pid = load_word(word_at(ledger_, offsetof(LedgerHeader, producer_pid))),
            .start_time = load_word(word_at(ledger_, offsetof(LedgerHeader, producer_start_time)))};
}

SpanPlan LedgerView::spans() const {
    return {.slab_count = header_.slab_count,
            .slabs_per_span = header_.slabs_per_span,
            .span_count = header_.span_count,
            .slab_bytes = header_.slab_bytes};
}

SlabWord LedgerView::slab_word(std::uint32_t slab) const {
    expect(slab < header_.slab_count, "a slab of the ledger");
    const std::size_t entries = sizeof(LedgerHeader) + header_.consumer_capacity * sizeof(LedgerConsumer);
    return SlabWord::unpack(
        load_word(word_at(ledger_, entries + slab * sizeof(SlabEntry) + offsetof(SlabEntry, word))));
}

std::uint64_t LedgerView::session_in(std::uint32_t consumer_index) const {
    expect(consumer_index < header_.consumer_capacity, "an index of the table of consumers");
    return load_word(word_at(
        ledger_, sizeof(LedgerHeader) + consumer_index * sizeof(LedgerConsumer) + offsetof(LedgerConsumer, session)));
}

bool LedgerView::is_current(const SlabTicket& ticket) const {
    if (ticket.slab >= header_.slab_count) return false;
    return slab_word(ticket.slab) == SlabWord{SlabState::Leased, ticket.attempt, ticket.generation};
}

bool LedgerView::may_complete(const SlabTicket& ticket) const {
    if (ticket.slab >= header_.slab_count) return false;
    const SlabWord word = slab_word(ticket.slab);
    return (word.state == SlabState::Leased || word.state == SlabState::Ready) && word.generation == ticket.generation;
}

SlabMappings SlabMappings::attach(const RunNames& names, Keeping keeping) {
    auto region = SharedRegionView::attach(names.ledger(), SharedRegionView::Access::ReadOnly, sizeof(LedgerHeader));
    const LedgerView ledger = LedgerView::check(region.bytes(), names);
    return {names, keeping, std::move(region), ledger};
}

SlabMappings::SlabMappings(const RunNames& names, Keeping keeping, SharedRegionView ledger_region,
                           const LedgerView& ledger)
    : names_(names),
      keeping_(keeping),
      ledger_region_(std::move(ledger_region)),
      ledger_(ledger),
      plan_(ledger.spans()),
      heartbeats_(
          SharedRegionView::attach(names.heartbeats(), SharedRegionView::Access::ReadWrite, ledger.heartbeats_bytes())),
      spans_(plan_.span_count) {}

HeartbeatRecord& SlabMappings::heartbeat(std::uint32_t consumer_index) {
    expect(consumer_index < ledger_.header().consumer_capacity, "an index of the table of consumers");
    return reinterpret_cast<HeartbeatRecord*>(heartbeats_.writable_bytes().data())[consumer_index];
}

std::span<const std::byte> SlabMappings::slab(std::uint32_t index) {
    if (index >= plan_.slab_count)
        throw ProtocolError("the ticket names slab " + std::to_string(index) + ", but the run has only " +
                            std::to_string(plan_.slab_count));
    return span_region(plan_.span_of(index)).bytes().subspan(plan_.offset_in_span(index), plan_.slab_bytes);
}

bool SlabMappings::map_next() {
    if (keeping_ == Keeping::PerSlab) return false;
    const auto next = std::find_if(spans_.begin(), spans_.end(), [](const auto& span) { return !span; });
    if (next == spans_.end()) return false;
    try {
        span_region(static_cast<std::uint32_t>(next - spans_.begin()));
        return true;
    } catch (const Error&) {
        return false;  // the producer is still making it
    }
}

void SlabMappings::done_with(std::uint32_t index) {
    if (keeping_ == Keeping::AllRun) return;
    const TraceRange range(TraceName::Unmap);
    spans_[plan_.span_of(index)].reset();
}

void SlabMappings::unmap_slabs() {
    for (auto& span : spans_) span.reset();
}

const SharedRegionView& SlabMappings::span_region(std::uint32_t index) {
    std::optional<SharedRegionView>& region = spans_[index];
    if (!region) {
        const TraceRange range(TraceName::Map);
        region =
            SharedRegionView::attach(names_.span(index), SharedRegionView::Access::ReadOnly, plan_.span_bytes(index));
        if (keeping_ == Keeping::AllRun) region->populate();
    }
    return *region;
}

}  // namespace offramp
