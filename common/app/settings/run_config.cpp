#include "common/app/settings/run_config.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string>

#include "common/app/settings/given_values.hpp"
#include "common/app/settings/processor_results.hpp"
#include "common/app/settings/setting_group.hpp"
#include "common/app/settings/toml.hpp"
#include "common/base/error.hpp"
#include "common/base/held_folder.hpp"

namespace offramp {
namespace {

constexpr const char* kConsumerProgram = "offramp-consumer";

// "one, another or a third": the processors that write to the database of --sink.
std::string processors_of_databases() {
    std::string names, last;
    for (const ProcessorResults& results : ProcessorResults::all()) {
        if (results.table.empty()) continue;
        if (!last.empty()) names += (names.empty() ? "" : ", ") + last;
        last = results.processor;
    }
    return names + (names.empty() ? "" : " or ") + last;
}

// True for a processor that needs each item's whole picture, and does not merge tiles.
bool needs_whole_pictures(const ProcessorResults& results) {
    return !results.puts_tiles_together && (results.reads == Reads::Masks || results.looks_at != LooksAt::Nothing);
}

std::string processors_that_put_tiles_together() {
    std::string names;
    for (const ProcessorResults& results : ProcessorResults::all())
        if (results.puts_tiles_together && results.processor != "auto")
            names += (names.empty() ? "" : ", ") + results.processor;
    return names;
}

template <class KindOf>
void check_own_shapes(const RunConfig& config, KindOf kind_of) {
    const auto refuse = [&](const char* flag, const std::string& value) {
        throw ConfigError(std::string("--") + flag + " " + value + " does not go with --resize none",
                          "Leave one of them out", kind_of(flag));
    };
    if (config.tile > 0) refuse("tile", std::to_string(config.tile));
    if (config.resize_size > 0) refuse("resize-size", std::to_string(config.resize_size));
    if (config.image_size > 0) refuse("image-size", std::to_string(config.image_size));
    for (const std::string& processor : config.processors())
        if (const ProcessorResults* const known = ProcessorResults::of(processor);
            known != nullptr && known->processor != "auto" &&
            (known->reads == Reads::Masks || known->looks_at == LooksAt::Pictures))
            throw ConfigError(config.flag_before(processor) + "'" + processor +
                                  "' does not go with --resize none: it needs pictures of "
                                  "one size",
                              "Choose --processor npy or safetensors, or leave --resize out", kind_of("processor"));
}

template <class KindOf>
void check_tiles(const RunConfig& config, KindOf kind_of) {
    const std::string tile = "--tile " + std::to_string(config.tile);
    if (config.tile == 0)
        throw ConfigError("--overlap '" + config.overlap + "' needs --tile",
                          "Give --tile the model's input size, or leave --overlap out", kind_of("overlap"));
    if (2 * std::uint64_t{config.overlap_pixels()} >= config.tile)
        throw ConfigError("--overlap '" + config.overlap + "' is not less than half of " + tile,
                          "Accepted: 0 to " + std::to_string((config.tile - 1) / 2) +
                              "; an eighth of the tile is usual, " + std::to_string(config.tile / 8),
                          kind_of("overlap"));
    if (config.resize_size > 0)
        throw ConfigError("--resize-size " + std::to_string(config.resize_size) + " does not go with " + tile +
                              ", which cuts tiles from pictures in their own size",
                          "Leave --resize-size out, or --tile", kind_of("resize-size"));
    if (config.image_size > 0 && config.image_size != config.tile)
        throw ConfigError("--image-size " + std::to_string(config.image_size) + " does not go with " + tile +
                              ": tiles are not resized",
                          "Leave --image-size out, or give both the same number", kind_of("image-size"));
    for (const std::string& processor : config.processors())
        if (const ProcessorResults* const known = ProcessorResults::of(processor);
            known != nullptr && needs_whole_pictures(*known))
            throw ConfigError(config.flag_before(processor) + "'" + processor + "' does not go with " + tile +
                                  ": it needs whole pictures and does not merge tiles",
                              "Choose --processor " + processors_that_put_tiles_together() +
                                  ", or one that takes any array and treats each tile as a sample",
                              kind_of("processor"));
    if (config.catalogue.text("mask-size") == "model")
        throw ConfigError("--mask-size 'model' does not go with " + tile + ", whose masks have their pictures' sizes",
                          "Leave --mask-size out", kind_of("mask-size"));
    if (!config.shard.empty() && config.samples_folder.empty())
        throw ConfigError("--shard '" + config.shard + "' does not go with " + tile +
                              ": tiles of one picture would be spread over runs with separate outputs",
                          "Make a job, whose shards share one output: ./launch/offramp job init", kind_of("shard"));
}

// Checks across several settings. Errors: ConfigError.
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
                              config.transform + "', which sets the type itself",
                          "Choose --transform cast or low-res, or leave --output-dtype out", kind_of("output-dtype"));
    if (config.output_dtype == "fp32" && config.transform == "cast")
        throw ConfigError("--output-dtype 'fp32' does not go with --transform 'cast', which converts 32 bits to 16",
                          "Accepted: auto, fp16, bf16", kind_of("output-dtype"));
    if (config.resize == "none") check_own_shapes(config, kind_of);
    if (config.tile > 0 || config.overlap != "auto") check_tiles(config, kind_of);
    if (config.chunk_overlap > 0 && config.chunk_overlap >= config.chunk_tokens)
        throw ConfigError(
            "--chunk-overlap " + std::to_string(config.chunk_overlap) +
                (config.chunk_tokens == 0 ? " needs --chunk-tokens"
                                          : " is not less than --chunk-tokens " + std::to_string(config.chunk_tokens)),
            config.chunk_tokens == 0 ? "Give --chunk-tokens, at most what the model takes; or leave --chunk-overlap out"
                                     : "An eighth of a chunk is usual: " + std::to_string(config.chunk_tokens / 8),
            kind_of("chunk-overlap"));
    const auto groups = config.groups();
    const auto is_optional = [](const GroupSettings& group) { return group.policy.optional; };
    if (!groups.empty() && std::ranges::all_of(groups, is_optional))
        throw ConfigError("every --group is optional: the run would wait for none of them",
                          "Leave ',optional' out of one at least", kind_of("group"));
    if (!config.group.empty() && config.when_full != "wait")
        throw ConfigError("--when-full '" + config.when_full + "' does not go with --group",
                          "Leave --when-full out; each group has its own policy: --group NAME=PROCESSOR,drop-oldest",
                          kind_of("when-full"));
    const auto spills = [](const GroupSettings& group) { return group.policy.when_full == WhenFull::Spill; };
    if (!config.spill_dir.empty() && config.when_full != "spill" && std::ranges::none_of(groups, spills))
        throw ConfigError(
            "--spill-dir '" + config.spill_dir + "' does not go with --when-full '" + config.when_full + "'",
            "Choose --when-full spill or --group NAME=PROCESSOR,spill, or leave --spill-dir out", kind_of("spill-dir"));
    if (config.model == "copy" && !config.weights.empty())
        throw ConfigError("--weights '" + config.weights + "' does not go with --model copy, which has none",
                          "Leave --weights out", kind_of("weights"));
    // Files in a shards folder would count as files of the same job's other shards.
    if (!config.samples_folder.empty() &&
        !config.output.starts_with(config.samples_folder + "/" + std::string(kReservedPrefix) + "shards/"))
        throw ConfigError("--samples-folder '" + config.samples_folder + "' does not go with --output '" +
                              config.output + "', which is not a shard's folder in it",
                          "Leave --samples-folder out: ./launch/offramp shard gives both", kind_of("samples-folder"));
    if (!config.sink.empty() && !config.has_database())
        throw ConfigError(
            "--sink has an unknown form (not shown: it may hold a password)",
            "Accepted: postgres://USER@HOST/DATABASE, or key words: 'host=/run/postgresql dbname=vectors'",
            kind_of("sink"));
    if (config.has_database() && config.processor != "auto" && tables_of(config).empty())
        throw ConfigError(
            "--sink does not go with --processor '" + config.processor + "', which does not write to PostgreSQL",
            "Choose --processor " + processors_of_databases() + ", or leave --sink out", kind_of("sink"));
    if (config.sink_table != "auto" && tables_of(config).size() > 1)
        throw ConfigError("--sink-table '" + config.sink_table + "' names one table, but --processor '" +
                              config.processor + "' writes several",
                          "Leave --sink-table out, and name another schema by --sink: "
                          "postgres://USER@HOST/DATABASE?options=-csearch_path%3DSCHEMA,public",
                          kind_of("sink-table"));
    // Consumers never open the weights, and may run as a user who cannot.
    if (!config.weights.empty() && program != kConsumerProgram && ::access(config.weights.c_str(), R_OK) != 0)
        throw ConfigError("--weights '" + config.weights + "' cannot be read: " + std::strerror(errno),
                          "Give a .safetensors file that exists and that this user may read", ErrorKind::NoInput);
}

// The article's experiment: 64x3x512x512 from the host, 21 classes of raw logits, and every batch serialised
// and written to /dev/null by 8 consumers. Precision is left to the device:
// TF32 on a GPU, as PyTorch's defaults let cuDNN use it in convolutions.
void apply_article(RunConfig& config) {
    config.consumers = 8;
    config.slabs = 8;
    config.decode_workers = 8;
    config.batch = 64;
    config.image_size = 512;
    config.source = "synthetic";
    config.synthetic_on = "host";
    config.batches = 110;
    config.warmup_batches = 10;
    config.model = "deeplabv3-resnet50";
    config.random_weights = true;
    config.memory_format = "contiguous";
    config.processor = "write";
    config.catalogue.put("write-path", "/dev/null");
    config.catalogue.put("write-copy", true);
}

// Turns lines of text into vectors, in the database of --sink if given, with a model that `offramp export
// sentence:FOLDER` made.
void apply_embeddings(RunConfig& config) { config.processor = processor_for_vectors(config); }

// A run with groups has their processors, in their order.
void take_processors_of_groups(RunConfig& config, const GivenValues& given) {
    if (config.group.empty()) return;
    std::string processors;
    for (const GroupSettings& group : config.groups()) processors += (processors.empty() ? "" : ",") + group.processor;
    if (given.contains("processor") && config.processor != processors)
        throw ConfigError("--group does not go with --processor '" + config.processor + "': each group names its own",
                          "Leave --processor out");
    config.processor = processors;
}

std::string as_toml(const SettingValue& value) {
    const auto* const text = std::get_if<std::string>(&value);
    return text != nullptr ? quote_toml(*text) : to_text(value);
}

}  // namespace

std::optional<RunConfig> parse_run_config(int argc, const char* const* argv, const std::string& program) {
    const std::vector<Setting> settings = make_settings();
    const auto given = read_given(argc, argv, program, settings);
    if (!given) return std::nullopt;

    RunConfig config;
    for (const Setting& setting : settings)
        if (setting.flag == "profile" || setting.flag == "sink") apply(setting, *given, config);
    apply_profile(config.profile, config);
    for (const Setting& setting : settings) apply(setting, *given, config);
    take_processors_of_groups(config, *given);
    check_together(config, *given, program);
    return config;
}

RunConfig config_of_group(const RunConfig& config, const GroupSettings& group, const std::string& run_dir) {
    RunConfig own = config;
    own.run_dir = run_dir;
    own.group = group.text();
    own.processor = group.processor;
    return own;
}

std::vector<std::string> profile_names() { return {"default", "article", "embeddings"}; }

void apply_profile(const std::string& name, RunConfig& config) {
    config.profile = name;
    if (name == "article")
        apply_article(config);
    else if (name == "embeddings")
        apply_embeddings(config);
    else
        expect(name == "default", "a profile of profile_names()");
}

std::string to_toml(const RunConfig& config) {
    std::string text;
    std::string group;
    for (const Setting& setting : make_settings()) {
        if (setting.command_line_only) continue;
        if (setting.group != group) text += (text.empty() ? "# " : "\n# ") + setting.group + "\n";
        group = setting.group;
        text += setting.flag + " = " + as_toml(setting.get(config)) + "\n";
    }
    return text;
}

std::string to_json(const RunConfig& config) {
    nlohmann::ordered_json object = nlohmann::ordered_json::object();
    for (const Setting& setting : make_settings()) {
        if (setting.command_line_only) continue;
        std::visit([&](const auto& value) { object[setting.flag] = value; }, setting.get(config));
    }
    return object.dump(2);
}

}  // namespace offramp
