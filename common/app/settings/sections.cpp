#include "common/app/settings/sections.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <string>
#include <utility>

#include "common/app/settings/declared_setting.hpp"
#include "common/app/settings/effects.hpp"
#include "common/app/settings/processor_results.hpp"
#include "common/app/settings/run_config.hpp"
#include "common/app/settings/setting_checks.hpp"
#include "common/app/settings/setting_group.hpp"
#include "common/base/error.hpp"
#include "common/base/utf8.hpp"
#include "common/shm/run_objects.hpp"

namespace offramp {
namespace {

constexpr std::uint32_t kMostConsumers = 64;

}  // namespace

void describe_run(SettingGroup& group) {
    SettingGroup rare = group.advanced(), of_the_launcher = group.of_the_launcher();
    Setting& run_dir = group.path("run-dir", &RunSettings::run_dir, kProgram, "FOLDER", "a path",
                                  "Sockets, status and logs of the run");
    // The sockets' paths begin with the run directory.
    run_dir.set = [as_given = run_dir.set, whole = run_dir.anywhere](RunConfig& config, const std::string& text) {
        const auto problem = as_given(config, text);
        return problem ? problem : as_given(config, whole(text));
    };
    rare.text("run-id", &RunSettings::run_id, kProgram, "ID", "letters, digits, '.', '_' and '-', at most 48 bytes",
              "Names the shared-memory objects", check_run_id);
    group.word("profile", &RunSettings::profile, kProgram, profile_names(), "Named group of settings");
    group.whole_or_bounds("consumers", &RunSettings::consumers, kRuntime, {1, kMostConsumers, "auto"},
                          "Consumer processes; 'auto' and MIN..MAX: scaled to the load during the run");
    rare.word("log-level", &RunSettings::log_level, kProgram, {"trace", "debug", "info", "warning", "error", "off"},
              "Lowest severity to log");
    group.log_format("log-format", &RunSettings::log_format, kProgram, "Format of log lines");
    rare.path("log-file", &RunSettings::log_file, kProgram, "FILE", "a path",
              "Log to this file in addition to standard error");
    of_the_launcher.whole("lifeline-fd", &RunSettings::lifeline_fd, kProgram, {-1, std::numeric_limits<int>::max(), ""},
                          "Pipe that closes when the launcher exits; -1: none");
    rare.whole("producer-restarts", &RunSettings::producer_restarts, kRuntime, {0, 1000, ""},
               "Maximum restarts of a producer that dies; the new one recovers its run");
    rare.seconds(
        "producer-wait-seconds", &RunSettings::producer_wait_seconds, kRuntime, 0, 86400,
        "How long a consumer without a launcher waits for a new producer when its own has died; 0: exit immediately");
    of_the_launcher.path(
        "turn", &RunSettings::turn, kProgram, "FILE", "a path",
        "File to lock while computing, so that programs that share it do not compute at the same time");
}

void describe_actions(SettingGroup& group) {
    group.action("print-config", &ActionSettings::print_config, "Print the configuration and exit");
    group.action("list", &ActionSettings::list, "Print the known models, sources and processors and exit");
}

void describe_measuring(SettingGroup& group) {
    SettingGroup rare = group.advanced();
    rare.whole("warmup-batches", &MeasuringSettings::warmup_batches, kRuntime, {0, kAnyNumber, ""},
               "First batches excluded from the steady rates");
    rare.on_off("drain-warmup", &MeasuringSettings::drain_warmup, kRuntime,
                "Deliver all warm-up batches before the measured ones start");
    rare.whole("measure-limits", &MeasuringSettings::measure_limits, kRuntime, {0, kAnyNumber, ""},
               "Batches of compute alone, and of copies alone, to measure in the same run");
    rare.whole("profile-batches", &MeasuringSettings::profile_batches, kRuntime, {0, kAnyNumber, ""},
               "Batches after the warm-up between cudaProfilerStart and cudaProfilerStop");
    rare.path("trace-dir", &MeasuringSettings::trace_dir, kRuntime, "FOLDER", "a path",
              "Folder where each program writes its time ranges when it ends");
    rare.seconds("status-seconds", &MeasuringSettings::status_seconds, kRuntime, 0.01, 3600,
                 "Interval between updates of status.json");
}

std::uint32_t InputSettings::overlap_pixels() const {
    return overlap == "auto" ? tile / 8 : static_cast<std::uint32_t>(std::stoul(overlap));
}

std::uint32_t InputSettings::group_rows() const {
    return by_length == "auto" || by_length == "off" ? 0 : static_cast<std::uint32_t>(std::stoul(by_length));
}

void describe_input(SettingGroup& group) {
    SettingGroup rare = group.advanced();
    group.text("source", &InputSettings::source, of_slabs(always, reads_input), "NAME", kPluginName,
               "Where items come from", check_plugin_name);
    group.path(
        "input", &InputSettings::input, of_items_at_hand(), "PATH", "a path",
        "Folder of images, a file that lists them (paths, or JSON in .jsonl), a .npy array, a folder with one for "
        "each sample (for a model of several inputs with NAME.npy of each), WebDataset shards (.tar, or --source "
        "webdataset and "
        "their folder), lines of text (--source text), texts with ids and columns (--source jsonl-text, parquet-text)");
    group.of_the_launcher().path("input-list", &InputSettings::input_list, kRuntime, "FILE",
                                 "the path of a list that a job made",
                                 "A job's list of the images in the --input folder; none: list the folder");
    group.of_the_launcher().path("input-index", &InputSettings::input_index, kRuntime, "FILE",
                                 "the path of an index that a job made",
                                 "A job's index of its list of images, with which a shard reads only its part");
    rare.path("tokenizer", &InputSettings::tokenizer, kItems, "FILE", "the path of a tokenizer.json",
              "Sources of texts: the tokenizer; none: MODEL.tokenizer.json beside MODEL.pt2");
    rare.text("id-column", &InputSettings::id_column, kItems, "NAME", "a column's name",
              "Sources `jsonl-text`, `parquet-text`: the column of ids, which name the results", check_column_name);
    rare.text("text-column", &InputSettings::text_column, kItems, "NAME", "a column's name",
              "Sources `jsonl-text`, `parquet-text`: the column of texts", check_column_name);
    rare.text(
        "columns", &InputSettings::columns, kItems, "A,B", "names of columns, with a comma between",
        "Sources `jsonl-text`, `parquet-text`: columns that processors `embeddings-...` and `records` copy to the "
        "results; none: all",
        check_names);
    group.whole("chunk-tokens", &InputSettings::chunk_tokens, of_slabs(is_chunked, is_chunked), {4, 1'000'000, "none"},
                "Sources of texts: maximum tokens per chunk, including the model's special tokens ([CLS]). Longer "
                "texts are split, between words if possible; each chunk is an item with its own vector");
    group.whole("chunk-overlap", &InputSettings::chunk_overlap, of_slabs(is_chunked, is_chunked),
                {1, 1'000'000, "none"}, "Maximum tokens that a chunk shares with the previous one");
    rare.word("synthetic-on", &InputSettings::synthetic_on, of_slabs(is_synthetic), {"host", "device"},
              "Where synthetic items are made: on the host, then uploaded, or on the device");
    rare.whole("batches", &InputSettings::batches, kItems, {1, kAnyNumber, "auto"}, "Batches of a synthetic source");
    group.whole("limit", &InputSettings::limit, kItems, {1, kAnyNumber, "all"},
                "Maximum items, from the start of the input");
    rare.text("shard", &InputSettings::shard, of_slabs(is_sharded), "I/N", "I/N with I from 1 to N, as 1/4",
              "Process only the I-th of N equal parts of the input, in stable order", check_shard);
    group.whole("batch", &InputSettings::batch, of_slabs(shows_its_batches), {1, 65536, "auto"}, "Samples in a batch");
    rare.text(
        "by-length", &InputSettings::by_length, of_slabs(is_by_length), "N",
        "auto, off, or a whole number of 1 to 65536",
        "Sources of texts: sort each batch by length and compute it N texts at a time, padded to the longest of those "
        "N; auto: 1/32 of --batch if the model's metadata has any-length",
        check_by_length);
    group.whole("image-size", &InputSettings::image_size, of_slabs(has_a_model, reads_pictures),
                {kSmallestImageSize, kLargestImageSize, "auto"},
                "Height and width that images are resized to, or cropped to from their center (--resize-size)");
    rare.whole("resize-size", &InputSettings::resize_size, of_slabs(cuts_pictures, reads_cut_pictures),
               {kSmallestImageSize, kLargestImageSize, "auto"},
               "Resize the shorter side to this length, keeping proportions, before the center crop to --image-size; "
               "auto: from the model's metadata, else squeeze the whole image into --image-size");
    group.word("resize", &InputSettings::resize, of_slabs(keeps_shapes), {"auto", "none"},
               "none: images, and the arrays in a folder, keep their own shapes; a batch has items of equal shape");
    rare.word("interpolation", &InputSettings::interpolation, of_slabs(is_bicubic), {"auto", "bilinear", "bicubic"},
              "How images are resized; auto: from the model's metadata, else bilinear");
    group.whole(
        "tile", &InputSettings::tile, of_slabs(is_tiled, is_tiled), {kSmallestImageSize, kLargestImageSize, "none"},
        "Height and width of the model's input: cut images of any size into tiles instead of resizing them. Their "
        "results are merged into one mask per image");
    group.text("overlap", &InputSettings::overlap, of_slabs(is_tiled, is_tiled), "N",
               "a whole number less than half of --tile, or auto",
               "Pixels that neighbouring tiles share, where their scores are blended; auto: an eighth of --tile",
               check_overlap);
    group.word("decode", &InputSettings::decode, of_slabs(decodes_on_gpu), {"cpu", "gpu", "auto"},
               "gpu: the GPU decodes and resizes JPEG files (nvJPEG); pixels differ a little from the CPU's. auto: gpu "
               "if it can");
    group.whole("decode-workers", &InputSettings::decode_workers, kRuntime, {1, 1024, "auto"},
                "Threads that read and decode items");
    rare.whole("prefetch", &InputSettings::prefetch, kRuntime, {1, 64, ""}, "Batches staged ahead of the model");
    group
        .text("max-errors", &InputSettings::max_errors, kRuntime, "N|P%",
              "a number (25) or a share of all items (0% to 100%)",
              "Maximum number or share of skipped items before the run fails. A share is of the whole input after "
              "--limit, rounded up",
              check_max_errors)
        .toml_types.push_back(TomlType::Integer);
}

std::vector<std::string> ModelSettings::output_tensors() const {
    return output_tensor.empty() ? std::vector<std::string>{} : split_at_commas(output_tensor);
}

void describe_model(SettingGroup& group) {
    SettingGroup rare = group.advanced();
    group.text("model", &ModelSettings::model, of_slabs(always), "NAME|FILE",
               std::string(kPluginName) + "; or the path of a .pt2, .pt or .safetensors file",
               "Model to run on each batch: a built-in one, the file of its weights, or a file with a whole model: an "
               "AOTInductor package (.pt2, see ./launch/offramp export) or TorchScript (.pt)",
               check_model);
    group.path("weights", &ModelSettings::weights, kKnownByItsBytes, "FILE", "the path of a .safetensors file",
               "Weights of a built-in model; default: those shipped with it");
    rare.on_off("random-weights", &ModelSettings::random_weights, kKnownByItsBytes,
                "Give a model without weights random ones from --seed, for measurements and tests");
    rare.whole("seed", &ModelSettings::seed, of_slabs(always), {0, kAnyNumber, ""},
               "Seed of random weights and synthetic input");
    group.word("precision", &ModelSettings::precision, of_slabs(always), {"auto", "fp32", "tf32", "bf16"},
               "Numeric precision of the model");
    rare.word("memory-format", &ModelSettings::memory_format, of_slabs(always), {"auto", "contiguous", "channels-last"},
              "Order of the dimensions in memory");
    group.text("output-tensor", &ModelSettings::output_tensor, of_slabs(chooses_outputs), "A,B",
               "names of outputs, with a comma between",
               "Deliver only these outputs of a model's file. One with a vector for each token of a text, [batch, "
               "tokens, width], is cut to each text's own tokens; none: all outputs, in one shape",
               check_names);
    group.word("transform", &ModelSettings::transform, of_slabs(always), {"none", "cast", "class-map", "low-res"},
               "Transform of the output on the device; class-map: argmax to 8 bits; low-res: the consumer does "
               "the model's last enlargement");
    rare.word("output-dtype", &ModelSettings::output_dtype, of_slabs(always), {"auto", "fp32", "fp16", "bf16"},
              "Element type of the output of the transforms cast (auto: fp16) and low-res (auto: fp32)");
    group.on_off("confidence", &ModelSettings::confidence, of_slabs(always),
                 "class-map: add a second output, the probability of each pixel's class in 8 bits");
    rare.bytes("copy-bytes", &ModelSettings::copy_bytes, of_slabs(is_copy), {1, std::int64_t{1} << 40, "auto"},
               "Bytes of a batch of the model `copy`");
    rare.text("copy-outputs", &ModelSettings::copy_outputs, of_slabs(is_copy), "SHAPES",
              "fp16 shapes of one sample, as 96x256x256,192x128x128",
              "Outputs of the model `copy`, instead of plain bytes", check_shapes);
    rare.word("cuda-graphs", &ModelSettings::cuda_graphs, kRuntime, {"auto", "off"},
              "auto: record a small model's kernels once and replay them, with one launch per batch");
    rare.on_off("deterministic", &ModelSettings::deterministic, of_slabs(always),
                "Disable autotuning: every run gives the same bits");
}

void describe_slabs(SettingGroup& group) {
    SettingGroup rare = group.advanced();
    group.text("device", &SlabSettings::device, kMemory, "DEVICE", "auto, cpu, cuda, or cuda:N (0 to 999)",
               "Where the model runs", check_device);
    group.whole("slabs", &SlabSettings::slabs, kMemory, {2, 4096, "auto"}, "Shared-memory slabs");
    rare.whole("samples-per-slab", &SlabSettings::samples_per_slab, kMemory, {1, 65536, "auto"},
               "Maximum samples of a batch per slab");
    rare.whole("batches-per-slab", &SlabSettings::batches_per_slab, kMemory, {1, 4096, "auto"},
               "Maximum whole batches per slab, for small batches");
    rare.bytes("slab-bytes", &SlabSettings::slab_bytes, kMemory,
               {std::int64_t{64} << 10, std::int64_t{1} << 36, "auto"},
               "Bytes of a slab's samples, if samples differ in shape; auto: by the largest that is known");
    rare.seconds("max-delay-seconds", &SlabSettings::max_delay_seconds, kRuntime, 0, 60,
                 "How long a batch waits for others to share its slab");
    rare.on_off("allow-unpinned", &SlabSettings::allow_unpinned, kRuntime,
                "Continue, more slowly, when slabs cannot be page-locked");
    group.word("when-full", &SlabSettings::when_full, kMemory, {"wait", "drop", "drop-oldest", "spill"},
               "When no slab is free: wait, drop and list the output, drop and list the oldest waiting slab, or spill "
               "that slab to the disk");
    rare.path("spill-dir", &SlabSettings::spill_dir, kMemory, "FOLDER", "a path",
              "Folder for slabs of --when-full spill; by default in the run directory");
}

void describe_delivery(SettingGroup& group) {
    group.seconds("visibility-timeout", &DeliverySettings::visibility_timeout, kRuntime, 0.1, 86400,
                  "Time without progress after which another consumer gets the slab");
    group.on_off("kill-stalled", &DeliverySettings::kill_stalled, kRuntime,
                 "Kill (SIGKILL) a consumer that exceeds the visibility timeout");
    group.whole("max-failures", &DeliverySettings::max_failures, kRuntime, {1, 1000, ""},
                "Failed deliveries before a slab becomes a dead letter");
    group.whole("window", &DeliverySettings::window, kRuntime, {1, 256, "auto"},
                "Slabs that a consumer holds concurrently");
    group.text("consumer-user", &DeliverySettings::consumer_user, kMemory, "USER", "a user's name",
               "User that consumers run as", check_user);
}

namespace {

// "`embeddings`, `records`": the given field of all processors that write to the database of --sink.
std::string named_of_databases(std::string ProcessorResults::*fact) {
    std::string names;
    for (const ProcessorResults& results : ProcessorResults::all())
        if (!results.table.empty()) names += (names.empty() ? "`" : ", `") + results.*fact + "`";
    return names;
}

struct Section {
    const char* name;
    void (*describe)(SettingGroup& group);
};

// "N", or "MIN..MAX".
bool are_consumers(const std::string& text) {
    const auto is_number = [](const std::string& digits) {
        return !digits.empty() && digits.size() <= 4 && digits.find('.') == std::string::npos &&
               std::stoul(digits) >= 1 && std::stoul(digits) <= kMostConsumers;
    };
    const std::size_t dots = text.find("..");
    if (dots == std::string::npos) return is_number(text);
    const std::string least = text.substr(0, dots), most = text.substr(dots + 2);
    return is_number(least) && is_number(most) && std::stoul(least) <= std::stoul(most);
}

// In the order of --help.
constexpr std::array<Section, 8> kSections{{{"The run", describe_run},
                                            {"Input", describe_input},
                                            {"Model", describe_model},
                                            {"Slabs and egress", describe_slabs},
                                            {"Measuring", describe_measuring},
                                            {"Delivery", describe_delivery},
                                            {"Consumers", describe_results},
                                            {"Instead of a run", describe_actions}}};

}  // namespace

GroupSettings GroupSettings::of(const std::string& text) {
    GroupSettings group;
    if (const auto problem = parse(text, group))
        throw ConfigError("--group '" + printable(text) + "' " + *problem, std::string("Accepted: ") + kForm);
    return group;
}

std::optional<std::string> GroupSettings::parse(const std::string& text, GroupSettings& group) {
    const std::size_t equals = text.find('=');
    if (equals == std::string::npos) return "names no processor";
    const std::size_t comma = std::min(text.find(',', equals), text.size());
    group = {.name = text.substr(0, equals), .processor = text.substr(equals + 1, comma - equals - 1)};
    if (!RunNames::is_group_name(group.name))
        return "has a name that is not 1 to 16 lower-case letters, digits and '-', a letter first";
    if (comma < text.size())
        if (auto problem = GroupPolicy::parse(std::string_view(text).substr(comma + 1), group.policy)) return problem;
    const std::size_t colon = group.processor.rfind(':');
    const std::string number = colon == std::string::npos ? "" : group.processor.substr(colon + 1);
    if (!number.empty() && number.find_first_not_of("0123456789.") == std::string::npos) {
        if (!are_consumers(number))
            return "asks for a number of consumers that is not 1 to " + std::to_string(kMostConsumers) +
                   ", nor two of them as MIN..MAX";
        group.consumers = number;
        group.processor.resize(colon);
    }
    if (group.processor.empty()) return "names no processor";
    if (group.processor == "auto") return "names 'auto', which chooses a processor for a whole run";
    return std::nullopt;
}

std::string GroupSettings::text() const { return name + "=" + processor + (policy.optional ? ",optional" : ""); }

std::vector<GroupSettings> ResultSettings::groups() const {
    std::vector<GroupSettings> groups;
    for (std::size_t begin = 0; begin < group.size();) {
        const std::size_t end = std::min(group.find('\n', begin), group.size());
        groups.push_back(GroupSettings::of(group.substr(begin, end - begin)));
        begin = end + 1;
    }
    return groups;
}

std::string ResultSettings::results_folder(const std::string& output_folder, std::string_view processor_name) const {
    if (output_folder.empty()) return output_folder;
    for (const GroupSettings& one : groups())
        if (one.processor == processor_name) return output_folder + "/" + one.name;
    if (processors().size() < 2) return output_folder;
    const auto spec = ProcessorSpec::of(processor_name);
    return output_folder + "/" + (spec ? spec->folder : std::string(processor_name));
}

std::vector<std::string> ResultSettings::processors() const { return split_at_commas(processor); }

bool ResultSettings::has_processor(std::string_view name) const {
    return std::ranges::any_of(processors(), [name](const std::string& other) { return other == name; });
}

std::string ResultSettings::flag_before(std::string_view processor_name) const {
    for (const GroupSettings& one : groups())
        if (one.processor == processor_name) return "group '" + one.name + "': processor ";
    return "--processor ";
}

// The value may hold a password, and is never shown.
bool ResultSettings::has_database() const {
    const bool uri = sink.find("://") != std::string::npos;
    return sink.starts_with("postgres://") || sink.starts_with("postgresql://") ||
           (!uri && sink.find('=') != std::string::npos);
}

void describe_results(SettingGroup& group) {
    SettingGroup rare = group.advanced();
    group.text("processor", &ResultSettings::processor, of_processing(always), "NAME[,NAME]",
               "a built-in name (npy, mask-png, ...; --list); or a custom one: FILE.py:FUNCTION, "
               "python:PACKAGE.MODULE:FUNCTION, so:FILE.so, "
               "exec:COMMAND; several with commas",
               "Processor for each slab; with several, each writes to its own folder OUTPUT/NAME", check_plugin_names);
    Setting& groups = group.text(
        "group", &ResultSettings::group, of_processing(has_groups), GroupSettings::kForm,
        std::string(GroupSettings::kForm) +
            ", such as masks=mask-png:8; several by repeating the flag, in a file by a line each; N may be MIN..MAX",
        "Group of consumers with a processor of its own, instead of --processor; results in OUTPUT/NAME", check_groups);
    groups.repeated = true;
    groups.counting = [](const std::string& text) {
        ResultSettings of_text;
        of_text.group = text;
        std::string counts;
        for (const GroupSettings& one : of_text.groups()) counts += (counts.empty() ? "" : " ") + one.text();
        return counts;
    };
    group.path("output", &ResultSettings::output, kPlace, "PATH", "a path", "Folder for results");
    group.of_the_launcher().path("samples-folder", &ResultSettings::samples_folder, kPlace, "PATH", "a path",
                                 "Folder for results of single samples, shared by the shards of a job; none: --output");
    group.text("sink", &ResultSettings::sink, kPlace, "URI",
               "postgres://USER@HOST/DATABASE, or libpq's key words: 'host=/run/postgresql dbname=vectors'",
               "Processors " + named_of_databases(&ProcessorResults::processor) +
                   ": the database; pass a password in PGPASSWORD or ~/.pgpass");
    rare.text("sink-table", &ResultSettings::sink_table, kPlace, "NAME",
              "lower-case letters, digits and '_', at most 48; before it perhaps a schema and '.'",
              "Table in the database of --sink; auto: " + named_of_databases(&ProcessorResults::table), check_table);
    group.word("scores", &ResultSettings::scores, of_slabs(is_class_map, separates_foreground),
               {"auto", "probability", "logit"},
               "Foreground value per pixel of a network of one channel; auto: from the model's metadata, else "
               "a probability");
    group.decimal("threshold", &ResultSettings::threshold, of_slabs(is_class_map, separates_foreground), 0, 1,
                  "Probability from which a pixel of a network of one channel is foreground");
    group.on_off("durable", &ResultSettings::durable, kPlace,
                 "Flush results, folders and checkpoint to the disk, to survive a power cut");
    group.on_off("resume", &ResultSettings::resume, kProgram,
                 "Continue the run in --output: process only the items missing there");
    group.on_off("overwrite", &ResultSettings::overwrite, kProgram,
                 "Rename what an earlier run left in --output to OUTPUT.before-RUN_ID, and begin anew");
}

std::string source_of_input(const std::string& source, std::string_view input) {
    constexpr std::array<std::pair<std::string_view, const char*>, 4> kSources{
        {{".jsonl", "jsonl"}, {".ndjson", "jsonl"}, {".npy", "npy"}, {".tar", "webdataset"}}};
    if (source != "auto") return source;
    if (input.empty()) return "synthetic";
    for (const auto& [ending, name] : kSources)
        if (input.ends_with(ending)) return name;
    return "images";
}

std::string source_of_texts(std::string_view input) {
    if (input.ends_with(".jsonl") || input.ends_with(".ndjson")) return "jsonl-text";
    return input.ends_with(".parquet") ? "parquet-text" : "text";
}

bool gives_columns(std::string_view source) { return source == "jsonl" || source == "webdataset"; }

bool gives_text_tables(std::string_view source) { return source == "jsonl-text" || source == "parquet-text"; }

bool gives_texts(std::string_view source) { return source == "text" || gives_text_tables(source); }

bool gives_pictures(std::string_view source) { return source == "images" || gives_columns(source); }

std::vector<Setting> make_settings() {
    std::vector<Setting> table;
    for (const Section& section : kSections) {
        SettingGroup group(table, section.name), rare = group.advanced();
        section.describe(group);
        for (const DeclaredSetting& declared : DeclaredSetting::all())
            if (declared.group == section.name) describe_declared(declared, declared.advanced ? rare : group);
    }
    return table;
}

}  // namespace offramp
