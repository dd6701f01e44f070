#include "consumer/processors/results/shard_results.hpp"

#include <filesystem>
#include <nlohmann/json.hpp>
#include <span>

#include "common/app/program/output_share.hpp"
#include "common/app/settings/parsed_values.hpp"
#include "common/app/settings/processor_results.hpp"
#include "common/app/settings/run_config.hpp"
#include "common/base/error.hpp"
#include "common/base/files.hpp"
#include "common/base/held_folder.hpp"
#include "common/json/json_text.hpp"
#include "consumer/processors/results/outputs_of_run.hpp"
#include "consumer/processors/results/run_output.hpp"

namespace offramp {
namespace {

// The names of the shard's files in `folder`, which is the shard's place or a folder in it.
std::vector<std::string> files_in(const std::string& folder, const std::string& place,
                                  const std::vector<std::string>& files) {
    std::vector<std::string> names;
    for (const std::string& file : files) {
        const std::filesystem::path path(place + "/" + file);
        if (path.parent_path() == folder) names.push_back(path.filename().string());
    }
    return names;
}

// Reads a file that the launcher writes whole. A read error may be temporary. A missing file will not return: the job
// was merged meanwhile, or abandoned.
std::string text_of_job_file(const std::string& path) {
    try {
        const RegularFile file(path);
        std::string text(file.size(), '\0');
        text.resize(file.read_at(0, std::as_writable_bytes(std::span(text))));
        return text;
    } catch (const Error& problem) {
        std::error_code unknown;
        if (!std::filesystem::exists(path, unknown) && !unknown)
            throw Error(
                ErrorKind::CannotWrite, path + ", which names the job of this output, is gone",
                "Check that the shared folder is mounted on this host. If it is, the job was merged or discarded");
        throw Error(ErrorKind::SinkUnavailable, path + ", which names the job of this output: " + problem.what(),
                    "Check that the shared folder is mounted on this host, and start the shard again");
    }
}

}  // namespace

void join_shards(const RunConfig& config, std::span<const DoneParts> shards, std::uint64_t count, std::uint64_t items) {
    for_each_output(config, [&](const RunOutput& output, const ResultSettings& own) {
        std::vector<ShardPart> parts;
        for (const DoneParts& shard : shards) {
            const Shard::Range share = Shard{shard.index + 1, count}.of(items);
            const std::string place = shard_place(config.output, shard.index);
            const std::string folder = config.results_folder(place, own.processor);
            parts.push_back({.folder = folder,
                             .items = {share.begin, share.end},
                             .files = files_in(folder, place, shard.files),
                             .to_do_again = to_do_shard_again(config.output, shard.index)});
        }
        output.join(own, parts);
    });
}

std::string job_of_shard(const std::string& place) {
    const std::string shards = "/" + std::string(kReservedPrefix) + "shards/";
    const std::size_t at = place.rfind(shards);
    if (at == std::string::npos)
        throw ConfigError("--samples-folder is for a job's shards, and --output " + place + " is not a shard's folder",
                          "Leave --samples-folder out: ./launch/offramp shard gives both");
    const std::string path = place.substr(0, at) + shards + "job.json";
    const nlohmann::json job_file = parse_json_or_discard(text_of_job_file(path));
    if (!job_file.is_object() || !job_file.contains("job") || !job_file["job"].is_string())
        throw Error(ErrorKind::BadInput, path + " does not name the job of this output",
                    "Begin the job again with ./launch/offramp job init, which writes it");
    return job_file["job"].get<std::string>();
}

}  // namespace offramp
