// A run's egress, as its settings and its checkpoint want it.

#include <pwd.h>
#include <unistd.h>

#include <chrono>
#include <utility>

#include "common/base/log.hpp"
#include "common/settings/kept_settings.hpp"
#include "common/settings/slab_work.hpp"
#include "producer/runner/run/producer_run.hpp"
#include "producer/runner/run/recovery_checks.hpp"
#include "producer/runner/sources/source_fingerprint.hpp"

namespace offramp {
namespace {

constexpr std::uint32_t kPoolBatchesOnGpu = 8;
constexpr std::uint32_t kPoolBatchesOnCpu = 6;

std::vector<uid_t> allowed_uids(const RunConfig& config) {
    std::vector<uid_t> uids{::geteuid()};
    if (!config.consumer_user.empty()) {
        const passwd* entry = ::getpwnam(config.consumer_user.c_str());
        if (entry == nullptr)
            throw ConfigError("--consumer-user '" + config.consumer_user + "' is not a user of this machine",
                              "Give a name that getent passwd lists");
        uids.push_back(entry->pw_uid);
    }
    return uids;
}

std::chrono::nanoseconds nanoseconds_of(double seconds) {
    return std::chrono::nanoseconds(static_cast<std::int64_t>(seconds * 1e9));
}

WhenFull when_full(const RunConfig& config) {
    if (config.when_full == "drop-newest") return WhenFull::Drop;
    return config.when_full == "spill" ? WhenFull::Spill : WhenFull::Wait;
}

}  // namespace

EgressPlan ProducerRun::lay_out_slabs() const {
    const EgressTraits& traits = strategy_->traits();
    EgressPlan plan = EgressPlan::make(config_, traits, transformer_->outputs(), source_->max_key_bytes(),
                                       device_->is_gpu() ? kPoolBatchesOnGpu : kPoolBatchesOnCpu);
    spdlog::info("slabs: {} of {:.1f} MiB, {} samples each, in {} spans", plan.spans.slab_count,
                 static_cast<double>(plan.layout.slab_bytes) / (1 << 20), plan.layout.rows, plan.spans.span_count);
    if (!traits.caution.empty()) spdlog::warn("{}", traits.caution);
    return plan;
}

EgressRunOptions ProducerRun::egress_options(const EgressPlan& plan) const {
    const EgressTraits::Slabs slabs = strategy_->traits().slabs;
    return {.layout = plan.layout,
            .spans = plan.spans,
            .slabs = slabs,
            .pinning = {.wanted = slabs == EgressTraits::Slabs::PageLockedPool && !config_.allow_unpinned},
            .batch = config_.batch,
            .queue_depth = plan.queue_depth,
            .max_delay = nanoseconds_of(config_.max_delay_seconds),
            .header_fields = {.transform = transformer_->transform(),
                              .upsample_factor = transformer_->upsample_factor(),
                              .model = std::string_view(config_.model).substr(config_.model.rfind('/') + 1),
                              .precision = config_.precision,
                              .memory_format = config_.memory_format},
            .when_full = when_full(config_),
            .spill_dir = config_.spill_dir,
            .allowed_uids = allowed_uids(config_),
            .work = SlabWork::of(config_).hash(),
            .visibility_timeout = nanoseconds_of(config_.lease_seconds),
            .max_charges = config_.max_charges,
            .warmup_batches = config_.warmup_batches,
            .kill_overdue = config_.kill_overdue};
}

EgressRunHooks ProducerRun::egress_hooks() {
    const auto note_begun = [this](const PublishedSlab& slab) {
        if (checkpoint_) checkpoint_->begin(slab.items);
    };
    const auto note_completed = [this](const PublishedSlab& slab) {
        if (checkpoint_) checkpoint_->completed(slab.items);
    };
    return {
        .on_begin = [this](RunProgress& progress) { describe_run(progress); },
        .numbers = {.batch = config_.batch, .items = source_->items()},
        .check_input = [this](const RunProgress& progress) { require_same_input(progress, *source_); },
        .check_kept = [this](const RunProgress& progress,
                             const Predecessor& predecessor) { go_on_with_checkpoint(progress, predecessor); },
        .before_publishing = note_begun,
        .on_completed = note_completed,
        .on_dropped = [this](std::uint64_t batch, std::span<const RowInfo> rows) { dropped_->note(batch, rows); },
        .on_pool_failure = [this](std::exception_ptr error) { fail(std::move(error)); },
        .on_delivery_end = [this] { lifecycle_.note_delivery_end(); },
        .on_delivery_failure = [this] { lifecycle_.stop(StopMode::Abandon, "the broker failed"); },
        .on_path_failure = [this] { lifecycle_.stop(StopMode::Halt, "the egress failed"); },
        .make_path =
            [this](PathParts parts) {
                return strategy_->make_path({.config = config_, .compute = *compute_, .path = std::move(parts)});
            },
        .make_delivery =
            [=, this] {
                return strategy_->make_local_delivery(
                    {.warmup_batches = config_.warmup_batches, .begin = note_begun, .on_completed = note_completed});
            }};
}

// For another producer, should this one die.
void ProducerRun::describe_run(RunProgress& progress) const {
    progress.began_ns = began_ns_;
    progress.items = source_->items();
    progress.keys_hash = source_hash(*source_);
    progress.done_before = done_before();
    keep_settings(place_.folder(), config_);
}

void ProducerRun::go_on_with_checkpoint(const RunProgress& progress, const Predecessor& predecessor) {
    open_checkpoint(predecessor);
    require_same_checkpoint(progress, done_before(), config_.output);
    sourced_before_ = sourced_by(predecessor, checkpoint_.get());
    if (checkpoint_) note_completed_by(predecessor, *checkpoint_);
}

// What need not be made: earlier runs did it, or this run's earlier producers published it (or could not read it).
ItemRanges ProducerRun::done_earlier() const {
    ItemRanges done = checkpoint_ ? checkpoint_->done() : ItemRanges{};
    done.add({0, egress_->predecessor().totals.items_through});
    return done;
}

}  // namespace offramp
