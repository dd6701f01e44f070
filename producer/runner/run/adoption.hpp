#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

#include "common/settings/run_config.hpp"
#include "common/shm/run_objects.hpp"
#include "common/transport/endpoint.hpp"
#include "common/wire/slab_layout.hpp"
#include "producer/broker/progress_log.hpp"
#include "producer/broker/spill_store.hpp"
#include "producer/ledger/slab_ledger.hpp"
#include "producer/pool/slab_exchange.hpp"

// The steps by which a producer takes over a run whose producer died (--adopt), besides attaching to its memory
// (RunMemory, SlabPool), which need nothing but what is there. producer/runner/run/README.md has their order.
namespace offramp {

// Where that run is met. Errors: NoSuchRun when there is none in the directory; ConfigError when it has another id than
// `run_id`.
Endpoint endpoint_to_adopt(const std::string& run_dir, const std::string& run_id);

// Errors: ConfigError names every setting that outputs or slabs follow from and that differs from those that were kept
// (common/settings/kept_settings), with both values; NoSuchRun when none were kept.
void require_kept_settings(const std::string& run_dir, const RunConfig& config);

// What the slabs in one of these states hold, by their own headers; in the order of publication. Maps each span for as
// long as it reads. `batch`, `items`: samples in a batch, items of the source. Errors: ProtocolError for a header that
// contradicts the ledger.
std::vector<PublishedSlab> read_slabs(std::initializer_list<SlabState> states, const SlabLedger& ledger,
                                      const RunNames& names, const SpanPlan& spans, std::uint32_t batch,
                                      std::uint64_t items);

// What a former producer spilled, in the order of publication. A file whose slab still waits in memory, or waits there
// again, is a copy that death left over: it is removed. Errors: ProtocolError for a file that is no slab of this run;
// SystemError.
std::vector<SpilledSlab> read_spilled(const SpillStore& store, const SlabLedger& ledger, const RunNames& names,
                                      std::uint32_t batch, std::uint64_t items,
                                      const std::vector<PublishedSlab>& in_flight);

// The account and the slabs are independent records: what was published and is neither completed nor given up must be
// in flight or spilled, and nothing of that lies behind the frontier. Errors: Conservation, with the figures.
void require_conserved(const ProgressLog::Totals& totals, const std::vector<PublishedSlab>& in_flight,
                       const std::vector<SpilledSlab>& spilled = {});

}  // namespace offramp
