#include "producer/runner/run/egress_options.hpp"

#include <pwd.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <string_view>
#include <vector>

#include "common/app/settings/slab_work.hpp"
#include "common/base/error.hpp"
#include "common/base/log.hpp"
#include "common/shm/memory_room.hpp"
#include "producer/runner/run/memory_check.hpp"

namespace offramp {
namespace {

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
    if (config.when_full == "drop") return WhenFull::Drop;
    return config.when_full == "spill" ? WhenFull::Spill : WhenFull::Wait;
}

}  // namespace

EgressPlan lay_out_slabs(const RunConfig& config, const EgressTraits& traits, const OutputTransformer& transformer,
                         const BatchSource& source, const Device& device) {
    EgressPlan plan = EgressPlan::make(config, traits, transformer.outputs(), source.max_key_bytes(), device.is_gpu());
    spdlog::info("slabs: {} of {:.1f} MiB, {} samples each, in {} spans", plan.spans.slab_count,
                 static_cast<double>(plan.layout.slab_bytes) / (1 << 20), plan.layout.rows, plan.spans.span_count);
    // A recovered run already has its slabs. A pool that /dev/shm has no room for is refused when it is created.
    const std::uint64_t pool = plan.spans.slab_count * std::uint64_t{plan.layout.slab_bytes};
    if (traits.has_pool() && !config.recover && pool <= shared_memory_room().free_bytes)
        require_memory(MachineMemory::read(), plan.spans.slab_count, plan.layout.slab_bytes, config.batch);
    if (!traits.warning.empty()) spdlog::warn("{}", traits.warning);
    return plan;
}

EgressRunOptions egress_options(const RunConfig& config, const EgressTraits& traits, const EgressPlan& plan,
                                const OutputTransformer& transformer) {
    const EgressTraits::Slabs slabs = traits.slabs;
    return {.layout = plan.layout,
            .spans = plan.spans,
            .slabs = slabs,
            .pinning = {.wanted = slabs == EgressTraits::Slabs::PageLockedPool && !config.allow_unpinned},
            .stream = {.header_fields = {.transform = transformer.transform(),
                                         .upsample_factor = transformer.upsample_factor(),
                                         .model = std::string_view(config.model).substr(config.model.rfind('/') + 1),
                                         .precision = config.precision,
                                         .memory_format = config.memory_format},
                       .batch = config.batch,
                       .queue_depth = plan.queue_depth,
                       .max_delay = nanoseconds_of(config.max_delay_seconds)},
            .when_full = when_full(config),
            .spill_dir = config.spill_dir,
            .broker = {.work = SlabWork::of(config).hash(),
                       .allowed_uids = allowed_uids(config),
                       .visibility_timeout = nanoseconds_of(config.visibility_timeout),
                       .max_failures = config.max_failures,
                       .warmup_batches = config.warmup_batches,
                       .kill_stalled = config.kill_stalled}};
}

}  // namespace offramp
