#include "producer/pool/run_memory.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "common/base/error.hpp"
#include "common/base/failpoint.hpp"
#include "common/base/process_watch.hpp"
#include "common/wire/messages.hpp"

namespace offramp {
namespace {

std::size_t ledger_bytes(std::uint32_t consumers, std::uint32_t slabs) {
    return round_up(
        sizeof(LedgerHeader) + consumers * sizeof(LedgerConsumer) + slabs * sizeof(SlabEntry) + sizeof(RunProgress),
        kPageBytes);
}

std::size_t heartbeats_bytes(std::uint32_t consumers) {
    return round_up(consumers * sizeof(HeartbeatRecord), kPageBytes);
}

LedgerHeader header_of(const RunNames& names, const SlabLayout& layout, const SpanPlan& plan,
                       std::uint32_t consumer_capacity, std::uint32_t epoch) {
    LedgerHeader header{};
    header.magic = kLedgerMagic;
    header.version = kLedgerVersion;
    header.epoch = epoch;
    header.run_nonce = names.nonce;
    header.slab_count = plan.slab_count;
    header.consumer_capacity = consumer_capacity;
    header.slabs_per_span = plan.slabs_per_span;
    header.span_count = plan.span_count;
    header.slab_bytes = plan.slab_bytes;
    header.header_bytes = layout.header_bytes;
    header.producer_pid = static_cast<std::uint64_t>(::getpid());
    header.producer_start_time = process_start_time(header.producer_pid).value_or(0);
    put_text(header.run_id, names.run_id);
    return header;
}

void require_same(const char* field, std::uint64_t found, std::uint64_t wanted) {
    if (found != wanted)
        throw ProtocolError(
            "the run cannot be taken over: its " + std::string(field) + " is " + std::to_string(found) +
                ", this producer's would be " + std::to_string(wanted),
            "Take it over with the options or settings of its first producer, by a producer of the same build");
}

void require_same_layout(const LedgerHeader& found, const LedgerHeader& wanted) {
    require_same("magic", found.magic, wanted.magic);
    require_same("version", found.version, wanted.version);
    require_same("nonce", found.run_nonce, wanted.run_nonce);
    require_same("slab_count", found.slab_count, wanted.slab_count);
    require_same("consumer_capacity", found.consumer_capacity, wanted.consumer_capacity);
    require_same("slabs_per_span", found.slabs_per_span, wanted.slabs_per_span);
    require_same("span_count", found.span_count, wanted.span_count);
    require_same("slab_bytes", found.slab_bytes, wanted.slab_bytes);
    require_same("header_bytes", found.header_bytes, wanted.header_bytes);
}

}  // namespace

RunMemory::RunMemory(std::uint32_t slab_count, std::uint32_t consumer_capacity, SharedRegion ledger,
                     SharedRegion heartbeats)
    : slab_count_(slab_count),
      consumer_capacity_(consumer_capacity),
      ledger_(std::move(ledger)),
      heartbeats_(std::move(heartbeats)) {}

RunMemory::RunMemory(const RunNames& names, const SlabLayout& layout, const SpanPlan& plan,
                     std::uint32_t consumer_capacity, std::uint32_t epoch, bool readable_by_group)
    : RunMemory(
          plan.slab_count, consumer_capacity,
          SharedRegion::create(names.ledger(), ledger_bytes(consumer_capacity, plan.slab_count),
                               {.readable_by_group = readable_by_group}),
          SharedRegion::create(names.heartbeats(), heartbeats_bytes(consumer_capacity),
                               {.readable_by_group = readable_by_group, .writable_by_group = readable_by_group})) {
    const LedgerHeader header = header_of(names, layout, plan, consumer_capacity, epoch);
    std::memcpy(ledger_.bytes().data(), &header, sizeof header);
}

RunMemory RunMemory::adopt(const RunNames& names, const SlabLayout& layout, const SpanPlan& plan,
                           std::uint32_t consumer_capacity) {
    RunMemory memory(plan.slab_count, consumer_capacity,
                     SharedRegion::adopt(names.ledger(), ledger_bytes(consumer_capacity, plan.slab_count)),
                     SharedRegion::adopt(names.heartbeats(), heartbeats_bytes(consumer_capacity)));
    LedgerHeader& header = memory.header();
    const LedgerHeader wanted = header_of(names, layout, plan, consumer_capacity, header.epoch);
    require_same_layout(header, wanted);
    if (watch_process(header.producer_pid, header.producer_start_time))
        throw Error(ErrorKind::RunInUse,
                    "the run's producer, process " + std::to_string(header.producer_pid) + ", is alive",
                    "Only a run whose producer is dead can be taken over");
    // The epoch first: a death from here on has used it up.
    std::atomic_ref(header.epoch).store(header.epoch + 1, std::memory_order_release);
    failpoint("adopt.epoch_used");
    store_word(header.producer_start_time, 0);  // 0 until both are there
    store_word(header.producer_pid, wanted.producer_pid);
    store_word(header.producer_start_time, wanted.producer_start_time);
    failpoint("adopt.producer_named");
    return memory;
}

void RunMemory::raise_epoch(std::uint32_t epoch) {
    std::atomic_ref(header().epoch).store(epoch, std::memory_order_release);
}

SlabLedger::Memory RunMemory::ledger() {
    std::byte* const consumers = ledger_.bytes().data() + sizeof(LedgerHeader);
    std::byte* const entries = consumers + consumer_capacity_ * sizeof(LedgerConsumer);
    return {{reinterpret_cast<LedgerConsumer*>(consumers), consumer_capacity_},
            {reinterpret_cast<SlabEntry*>(entries), slab_count_},
            first_session_of(header().run_nonce)};
}

RunProgress& RunMemory::progress() {
    return *reinterpret_cast<RunProgress*>(ledger_.bytes().data() + sizeof(LedgerHeader) +
                                           consumer_capacity_ * sizeof(LedgerConsumer) +
                                           slab_count_ * sizeof(SlabEntry));
}

std::span<const HeartbeatRecord> RunMemory::heartbeats() const {
    return {reinterpret_cast<const HeartbeatRecord*>(heartbeats_.bytes().data()), consumer_capacity_};
}

HeartbeatSnapshot::HeartbeatSnapshot(const std::string& name, std::uint32_t consumer_capacity)
    : object_(UniqueFd(::open(("/dev/shm" + name).c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW))),
      heartbeats_(consumer_capacity) {
    if (!object_) throw SystemError("opening the consumers' heartbeat records, shared memory " + name, errno);
    refresh();
}

// Copies each word whole: the kernel copies aligned memory in pieces larger than words.
void HeartbeatSnapshot::refresh() noexcept {
    while (::pread(object_.get(), heartbeats_.data(), heartbeats_.size() * sizeof(HeartbeatRecord), 0) < 0 &&
           errno == EINTR)
        continue;
}

}  // namespace offramp
