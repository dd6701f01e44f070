#include "producer/recovery/run_recovery.hpp"

#include <utility>

#include "common/base/error.hpp"
#include "common/base/log.hpp"
#include "common/base/remedy.hpp"

namespace offramp {

Endpoint RunRecovery::find(const std::string& run_dir, const std::string& run_id) {
    auto endpoint = Endpoint::read(run_dir);
    if (!endpoint)
        throw Error(ErrorKind::NoSuchRun, "there is no run to take over in " + run_dir + ": it has no file 'endpoint'",
                    remedy(Remedy::BeginRun));
    if (endpoint->names.run_id != run_id)
        throw ConfigError(
            "the run to take over in " + run_dir + " is '" + endpoint->names.run_id + "', not '" + run_id + "'",
            "Give its own id, " + endpoint->names.run_id);
    return *endpoint;
}

RunRecovery::RunRecovery(Layout layout)
    : layout_(std::move(layout)),
      memory_(RunMemory::adopt(layout_.names, layout_.layout, layout_.spans, layout_.consumer_capacity)) {}

void RunRecovery::take_up(const BatchNumbers& numbers, const SpillStore* spill) {
    const ProgressLog progress(memory_.progress());
    ledger_ = SlabLedger::adopt(memory_.ledger(), epoch(), progress.last_step());
    predecessor_ = read_predecessor(*ledger_, progress.totals(), layout_.names, layout_.spans, numbers, spill);
    require_conserved(predecessor_);
}

std::unique_ptr<RunRecords> RunRecovery::resume() && {
    expect(ledger_.has_value(), "take_up() precedes resume()");
    ++memory_.progress().producers;
    spdlog::info(
        "taking over run '{}' as epoch {}: {} samples published through item {}, {} completed, {} slabs in flight",
        layout_.names.run_id, epoch(), predecessor_.totals.published.samples, predecessor_.totals.items_through,
        predecessor_.totals.completed.samples, predecessor_.in_flight.size());
    return std::make_unique<RunRecords>(std::move(memory_), *ledger_);
}

std::unique_ptr<SlabPool> RunRecovery::take_slabs(const RunNames& names, const SpanPlan& spans, SlabPool::Pin pin,
                                                  bool readable_by_group, SlabPool::Listener news) {
    return SlabPool::adopt(names, spans, std::move(pin), readable_by_group, std::move(news));
}

void RunRecovery::continue_in(Broker& broker, const Predecessor& predecessor) {
    broker.adopt(predecessor.in_flight, predecessor.dead_letters, predecessor.spilled);
}

}  // namespace offramp
