#include "producer/runner/run/egress_plan.hpp"

#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <fstream>
#include <map>
#include <string_view>
#include <vector>

#include "common/app/settings/kept_settings.hpp"
#include "common/base/error.hpp"
#include "common/base/log.hpp"
#include "common/shm/shared_region.hpp"
#include "producer/egress/slab_plan.hpp"

namespace offramp {
namespace {

constexpr std::size_t kTimedOneIn = 16;
// Of samples that differ in shape; a larger sample has a slab of its size.
constexpr std::size_t kLeastVaryingSlab = std::size_t{16} << 20;
constexpr std::size_t kMostVaryingSlab = std::size_t{64} << 20;

// A slab for a batch of the largest samples, within limits.
std::size_t varying_slab_bytes(std::uint32_t batch, std::size_t most_varying_bytes) {
    return std::max(most_varying_bytes, std::clamp(batch * most_varying_bytes, kLeastVaryingSlab, kMostVaryingSlab));
}

void require_may_vary(const RunConfig& config, const EgressTraits& traits, const TensorSpec& output) {
    const std::string what = "the samples of the " + describe_output(output) + " differ in shape";
    if (traits.one_shape)
        throw ConfigError(what + ", which --strategy " + traits.name + " does not support",
                          "Use --strategy streams, or samples of one shape");
    if (config.batches_per_slab > 0)
        throw ConfigError(what + ", which --batches-per-slab does not support",
                          "Leave --batches-per-slab out; --samples-per-slab bounds the samples in a slab");
}

WhenFull when_full(const RunConfig& config) {
    if (config.when_full == "drop") return WhenFull::Drop;
    if (config.when_full == "drop-oldest") return WhenFull::DropOldest;
    return config.when_full == "spill" ? WhenFull::Spill : WhenFull::Wait;
}

// Otherwise each batch would lose samples, also while all slabs are free.
void require_slabs_for_a_batch(const RunConfig& config, const SlabPlan& slabs) {
    const bool drops = config.when_full == "drop" || config.when_full == "drop-oldest";
    const auto groups = config.groups();
    const auto dropping =
        std::ranges::find_if(groups, [](const GroupSettings& group) { return group.policy.drops_for_run(); });
    const auto rows = static_cast<std::uint32_t>(slabs.layout.rows);
    const std::uint32_t parts = (config.batch + rows - 1) / rows;
    if ((!drops && dropping == groups.end()) || parts <= slabs.slab_count) return;
    const std::string policy = drops ? "--when-full " + config.when_full : "drop-oldest in group " + dropping->name;
    throw ConfigError(
        fmt::format("a batch of {} samples fills {} slabs, and this run with {} has {}", config.batch, parts, policy,
                    slabs.slab_count),
        "Give a smaller --batch, more --slabs or a larger --samples-per-slab, or let the run wait: leave " +
            std::string(drops ? "--when-full" : "drop-oldest") + " out");
}

std::vector<ConsumerGroup> consumer_groups(const RunConfig& config) {
    std::vector<ConsumerGroup> groups;
    for (const GroupSettings& group : config.groups())
        groups.push_back({.name = group.name,
                          .policy = group.policy,
                          .work = SlabWork::of(config_of_group(config, group, config.run_dir)).hash()});
    return groups;
}

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

// "Name:  123 kB" of each line, in bytes.
std::map<std::string, std::uint64_t> read_kilobytes(const std::string& path) {
    std::map<std::string, std::uint64_t> bytes_by_name;
    std::ifstream file(path);
    std::string name, unit;
    for (std::string line; std::getline(file, line);) {
        const std::size_t colon = line.find(':');
        if (colon == std::string::npos || !line.ends_with(" kB")) continue;
        try {
            bytes_by_name[line.substr(0, colon)] = std::stoull(line.substr(colon + 1)) * 1024;
        } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): not a number
        }
    }
    return bytes_by_name;
}

std::string gibibytes(std::uint64_t bytes) {
    return fmt::format("{:.1f} GiB", static_cast<double>(bytes) / static_cast<double>(1U << 30U));
}

}  // namespace

EgressPlan EgressPlan::make(const RunConfig& config, const EgressTraits& traits, const std::vector<TensorSpec>& outputs,
                            std::size_t max_key_bytes, bool on_gpu, std::size_t most_varying_bytes) {
    const auto varying = std::ranges::find_if(outputs, &TensorSpec::varies);
    const bool varies = varying != outputs.end();
    if (varies) require_may_vary(config, traits, *varying);
    const SlabPlan slabs =
        SlabPlan::make(outputs,
                       {.batch = config.batch,
                        .samples_per_slab = config.samples_per_slab,
                        .batches_per_slab = config.batches_per_slab,
                        .slabs = config.slabs,
                        .slab_bytes = !varies                 ? 0
                                      : config.slab_bytes > 0 ? config.slab_bytes
                                                              : varying_slab_bytes(config.batch, most_varying_bytes),
                        .may_share = traits.batches_share_slabs,
                        .max_key_bytes = max_key_bytes},
                       on_gpu);
    if (!traits.outputs_dropped) require_slabs_for_a_batch(config, slabs);
    EgressPlan plan;
    plan.layout = slabs.layout;
    // If each filling creates its slab, every slab has its own segment.
    plan.spans = traits.slabs == EgressTraits::Slabs::MadePerFilling
                     ? SpanPlan::make(slabs.slab_count, plan.layout.slab_bytes, slabs.slab_count)
                     : SpanPlan::make(slabs.slab_count, plan.layout.slab_bytes);
    plan.queue_depth = varies ? kMostBatchesAhead : slabs.batches_ahead;  // EgressStream bounds their bytes
    // A recorded run needs every batch's time, and so does one measured from a drained start.
    const bool measured = config.drain_warmup || !config.trace_dir.empty();
    if (slabs.small && slabs.batches_ahead >= kTimedOneIn)
        plan.pace = {.depth = slabs.batches_ahead / kTimedOneIn * kTimedOneIn, .timed = measured ? 1 : kTimedOneIn};
    return plan;
}

EgressPlan lay_out_slabs(const RunConfig& config, const EgressTraits& traits, const OutputTransformer& transformer,
                         const BatchSource& source, const Device& device) {
    EgressPlan plan = EgressPlan::make(config, traits, transformer.outputs(), source.max_key_bytes(), device.is_gpu(),
                                       transformer.most_varying_bytes());
    spdlog::info("slabs: {} of {:.1f} MiB, {}{} samples each, in {} spans", plan.spans.slab_count,
                 static_cast<double>(plan.layout.slab_bytes) / (1 << 20), plan.layout.varies() ? "at most " : "",
                 plan.layout.rows, plan.spans.span_count);
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
            .groups = consumer_groups(config),
            .broker = {.work = SlabWork::of(config).hash(),
                       .allowed_uids = allowed_uids(config),
                       .visibility_timeout = nanoseconds_of(config.visibility_timeout),
                       .max_failures = config.max_failures,
                       .warmup_batches = config.warmup_batches,
                       .kill_stalled = config.kill_stalled}};
}

MachineMemory MachineMemory::read(const std::string& machine, const std::string& process) {
    auto of_machine = read_kilobytes(machine);
    auto own = read_kilobytes(process);
    return {.total = of_machine["MemTotal"] + of_machine["SwapTotal"],
            .available = of_machine["MemAvailable"] + of_machine["SwapFree"],
            .own = own["RssAnon"]};
}

void require_memory(const MachineMemory& memory, std::uint32_t slabs, std::uint64_t slab_bytes, std::uint32_t batch) {
    const std::uint64_t pool = slabs * slab_bytes;
    if (memory.total == 0 || (pool + memory.own <= memory.total && pool <= memory.available)) return;
    const std::string sizes = fmt::format(
        "{} for {} slabs of {:.1f} MiB, beside the {} that this producer uses now, its model and the model's memory "
        "for a batch of {}",
        gibibytes(pool), slabs, static_cast<double>(slab_bytes) / (1U << 20U), gibibytes(memory.own), batch);
    const std::string fix =
        "Give a smaller --batch, fewer --slabs, or with --tile a smaller --tile and a model of that size";
    if (pool + memory.own > memory.total)
        throw Error(ErrorKind::System,
                    "the run takes more memory than the " + gibibytes(memory.total) + " of this machine: " + sizes,
                    fix);
    spdlog::warn("memory may become short: {} are available (/proc/meminfo), and the run takes {}. {}",
                 gibibytes(memory.available), sizes, fix);
}

}  // namespace offramp
