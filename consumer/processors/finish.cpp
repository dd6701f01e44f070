#include "consumer/processors/finish.hpp"

#include <filesystem>

#include "common/base/log.hpp"
#include "consumer/sinks/atomic_file.hpp"
#include "consumer/sinks/segment_merge.hpp"

namespace offramp {
namespace {

void remove_leftovers(const std::string& folder) {
    const std::size_t removed = remove_stale_temporaries(folder);
    if (removed > 0) spdlog::info("removed {} temporary files of dead consumers from {}", removed, folder);
}

void merge_checksums(const std::string& output) {
    const std::string file = output + "/checksums.tsv";
    const MergeOutcome outcome = merge_segments(output, "checksum", file);
    if (outcome.segments > 0)
        spdlog::info("{}: {} items of {} segments, {} of them delivered again", file, outcome.items,
                     outcome.segments, outcome.repeats);
    if (outcome.conflicts > 0)
        spdlog::warn(
            "{}: {} items were delivered again with other checksums; the latest were kept. "
            "Is the output folder that of an earlier, unfinished run?",
            file, outcome.conflicts);
}

}  // namespace

void finish_run(const RunConfig& config) {
    if (!config.output.empty()) {
        merge_checksums(config.output);
        remove_leftovers(config.output);
    }
    std::error_code unknown;
    if (config.processor == "write" && std::filesystem::is_directory(config.write_path, unknown))
        remove_leftovers(config.write_path);
}

}  // namespace offramp
