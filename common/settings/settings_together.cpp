#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "common/base/reserved_prefix.hpp"
#include "common/settings/given_values.hpp"
#include "common/settings/processor_results.hpp"

namespace offramp {
namespace {

constexpr const char* kConsumerProgram = "offramp-consumer";

// "one, another or a third": those that write to the database of --sink.
std::string processors_of_databases() {
    std::string names, last;
    for (const ProcessorResults& results : ProcessorResults::all()) {
        if (results.table.empty()) continue;
        if (!last.empty()) names += (names.empty() ? "" : ", ") + last;
        last = results.processor;
    }
    return names + (names.empty() ? "" : " or ") + last;
}

}  // namespace

void check_together(const RunConfig& config, const GivenValues& given, const std::string& program) {
    const auto kind_of = [&given](const char* flag) {
        const auto found = given.find(flag);
        return found == given.end() ? ErrorKind::Usage : found->second.kind;
    };
    if (config.model == "copy" && config.transform != "none")
        throw ConfigError(
            "--transform '" + config.transform + "' does not go with --model copy, whose output has no classes",
            "Accepted: none", kind_of("transform"));
    if (config.confidence && config.transform != "class-map")
        throw ConfigError("--confidence does not go with --transform '" + config.transform + "'",
                          "Choose --transform class-map, or leave --confidence out", kind_of("confidence"));
    if (config.output_dtype != "auto" && config.transform != "cast" && config.transform != "low-res")
        throw ConfigError("--output-dtype '" + config.output_dtype + "' does not go with --transform '" +
                              config.transform + "', which leaves no choice of it",
                          "Choose --transform cast or low-res, or leave --output-dtype out", kind_of("output-dtype"));
    if (config.output_dtype == "fp32" && config.transform == "cast")
        throw ConfigError("--output-dtype 'fp32' does not go with --transform 'cast', which makes 16 bits of 32",
                          "Accepted: auto, fp16, bf16", kind_of("output-dtype"));
    if (!config.spill_dir.empty() && config.when_full != "spill")
        throw ConfigError(
            "--spill-dir '" + config.spill_dir + "' does not go with --when-full '" + config.when_full + "'",
            "Choose --when-full spill, or leave --spill-dir out", kind_of("spill-dir"));
    if (config.model == "copy" && !config.weights.empty())
        throw ConfigError("--weights '" + config.weights + "' does not go with --model copy, which has none",
                          "Leave --weights out", kind_of("weights"));
    // Files that lie in such a folder are taken for other shards' of the same job.
    if (!config.samples_folder.empty() &&
        !config.output.starts_with(config.samples_folder + "/" + std::string(kReservedPrefix) + "shards/"))
        throw ConfigError("--samples-folder '" + config.samples_folder + "' does not go with --output '" +
                              config.output + "', which is not the place of a job's shard in it",
                          "Leave --samples-folder out: ./launch/offramp shard gives both", kind_of("samples-folder"));
    if (!config.sink.empty() && !config.has_database())
        throw ConfigError(
            "--sink is of an unknown kind",
            "Accepted: postgres://USER@HOST/DATABASE, or key words: 'host=/run/postgresql dbname=vectors'",
            kind_of("sink"));
    if (config.has_database() && config.processor != "auto" && tables_of(config).empty())
        throw ConfigError(
            "--sink does not go with --processor '" + config.processor + "', which writes to no database there",
            "Choose --processor " + processors_of_databases() + ", or leave --sink out", kind_of("sink"));
    if (config.sink_table != "auto" && tables_of(config).size() > 1)
        throw ConfigError("--sink-table '" + config.sink_table + "' is one table, and --processor '" +
                              config.processor + "' makes several",
                          "Leave --sink-table out, and name another schema by --sink: "
                          "postgres://USER@HOST/DATABASE?options=-csearch_path%3DSCHEMA,public",
                          kind_of("sink-table"));
    // Consumers never open the weights, and may run as a user who cannot.
    if (!config.weights.empty() && program != kConsumerProgram && ::access(config.weights.c_str(), R_OK) != 0)
        throw ConfigError("--weights '" + config.weights + "' cannot be read: " + std::strerror(errno),
                          "Give a .safetensors file that exists and that this user may read", ErrorKind::NoInput);
}

}  // namespace offramp
