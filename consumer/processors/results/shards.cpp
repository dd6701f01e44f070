#include "consumer/processors/results/shards.hpp"

#include <vector>

#include "common/program/shard_place.hpp"
#include "common/settings/processor_spec.hpp"
#include "common/settings/run_config.hpp"
#include "common/settings/shard.hpp"
#include "consumer/processors/results/outputs_of_run.hpp"

namespace offramp {

void join_shards(const RunConfig& config, std::span<const std::uint64_t> shards, std::uint64_t count,
                 std::uint64_t items) {
    const std::size_t processors = config.processors().size();
    for_each_output(config, [&](const RunOutput& output, const ResultSettings& own) {
        std::vector<ShardPart> parts;
        for (const std::uint64_t shard : shards) {
            const Shard::Range share = Shard{shard + 1, count}.of(items);
            parts.push_back({.folder = results_folder(shard_place(config.output, shard), own.processor, processors),
                             .items = {share.begin, share.end}});
        }
        output.join(own, parts);
    });
}

}  // namespace offramp
