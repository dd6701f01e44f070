#include <algorithm>
#include <initializer_list>
#include <limits>
#include <string_view>

#include "common/base/redacted_url.hpp"
#include "common/settings/profile.hpp"
#include "common/settings/setting.hpp"
#include "common/settings/setting_checks.hpp"
#include "common/settings/source_of_input.hpp"

namespace offramp {
namespace {

constexpr std::int64_t kAnyNumber = std::numeric_limits<std::int64_t>::max();

constexpr const char* kPluginName = "lower-case letters, digits and '-'; --list prints the known names";

// --- what would be other with another value (Effect) ---

constexpr Effect kProgram{.on = Effect::On::Program};
constexpr Effect kConduct{.on = Effect::On::Conduct};
constexpr Effect kMemory{.on = Effect::On::Memory};
constexpr Effect kItems{.on = Effect::On::Items};
constexpr Effect kPlace{.on = Effect::On::Place};
// --resume looks into the file that is chosen.
constexpr Effect kKnownByItsBytes{.on = Effect::On::Results};

constexpr Effect of_slabs(Effect::When when, Effect::When in_processing = nullptr) {
    return {.on = Effect::On::Results, .in_slabs = when, .in_processing = in_processing};
}
constexpr Effect of_processing(Effect::When when) { return of_slabs(nullptr, when); }

bool always(const RunConfig&) { return true; }
bool is_copy(const RunConfig& config) { return config.model == "copy"; }
bool has_a_model(const RunConfig& config) { return !is_copy(config); }
bool is_synthetic(const RunConfig& config) { return config.source == "synthetic"; }
bool is_sharded(const RunConfig& config) { return !config.shard.empty(); }
bool is_class_map(const RunConfig& config) { return config.transform == "class-map"; }
bool cuts_pictures(const RunConfig& config) { return gives_pictures(config.source) && config.resize_size > 0; }
bool is_bicubic(const RunConfig& config) { return gives_pictures(config.source) && config.interpolation == "bicubic"; }
// Elsewhere a batch is but how many items go through the model at once.
bool shows_its_batches(const RunConfig& config) { return is_synthetic(config) || config.has_processor("checksum"); }

bool has_one_of(const RunConfig& config, std::initializer_list<std::string_view> processors) {
    return std::ranges::any_of(processors, [&](std::string_view name) { return config.has_processor(name); });
}
bool makes_masks(const RunConfig& config) { return has_one_of(config, {"auto", "mask-png", "mask-rle"}); }
bool makes_images(const RunConfig& config) { return config.has_processor("image"); }
bool makes_vectors(const RunConfig& config) {
    return has_one_of(config, {"embeddings-sqlite", "embeddings-parquet", "embeddings-postgres"});
}
bool makes_records(const RunConfig& config) { return has_one_of(config, {"records", "records-postgres"}); }
bool posts(const RunConfig& config) { return config.has_processor("http"); }
bool writes(const RunConfig& config) { return config.has_processor("write"); }
// Masks of the pictures' size are made with the pictures at hand.
bool reads_pictures(const RunConfig& config) {
    return has_one_of(config, {"cut-out", "overlay"}) || (config.mask_size == "image" && makes_masks(config));
}
bool reads_cut_pictures(const RunConfig& config) { return config.resize_size > 0 && reads_pictures(config); }
bool reads_input(const RunConfig& config) { return reads_pictures(config) || makes_records(config); }
bool tells_foregrounds(const RunConfig& config) {
    return makes_masks(config) || makes_records(config) || has_one_of(config, {"cut-out", "overlay"});
}

// Of items whose originals are looked at again.
constexpr Effect kItemsAtHand{.on = Effect::On::Items, .in_processing = reads_input};

void add_run(std::vector<Setting>& table) {
    SettingGroup run(table, "The run");
    Setting& run_dir =
        run.path("run-dir", &RunConfig::run_dir, kProgram, "FOLDER", "a path", "Sockets, status and logs of the run");
    // Its sockets are named by it.
    run_dir.set = [as_given = run_dir.set, whole = run_dir.anywhere](RunConfig& config, const std::string& text) {
        return as_given(config, whole(text));
    };
    run.text("run-id", &RunConfig::run_id, kProgram, "ID", "letters, digits, '.', '_' and '-', at most 48 bytes",
             "Names the shared-memory objects", check_run_id);
    run.word("profile", &RunConfig::profile, kProgram, profile_names(), "Settings that go together");
    run.whole("consumers", &RunConfig::consumers, kConduct, {1, 64, "auto"}, "Consumer processes");
    run.word("log-level", &RunConfig::log_level, kProgram, {"trace", "debug", "info", "warning", "error", "off"},
             "Least important lines that are logged");
    run.log_format("log-format", &RunConfig::log_format, kProgram, "Form of the log's lines");
    run.path("log-file", &RunConfig::log_file, kProgram, "FILE", "a path", "Log here as well as to standard error");
    run.whole("lifeline-fd", &RunConfig::lifeline_fd, kProgram, {-1, std::numeric_limits<int>::max(), ""},
              "Pipe whose end of file says that the launcher is gone; -1: none");
    run.whole("producer-restarts", &RunConfig::producer_restarts, kConduct, {0, 1000, ""},
              "How often a producer that dies is started again, to take over what it left");
    run.seconds(
        "producer-wait-seconds", &RunConfig::producer_wait_seconds, kConduct, 0, 86400,
        "A consumer without a launcher waits so long for another producer when its own has died; 0: it ends with it");
    run.action("adopt", &RunConfig::adopt,
               "Take over the run in --run-dir whose producer died; the other flags must be those it was started with");
}

void add_input(std::vector<Setting>& table) {
    SettingGroup input(table, "Input");
    input.text("source", &RunConfig::source, of_slabs(always, reads_input), "NAME", kPluginName,
               "Where items come from", check_plugin_name);
    input.path("input", &RunConfig::input, kItemsAtHand, "PATH", "a path",
               "Folder of images, a file that lists them (paths, or JSON in .jsonl), a .npy array (for a model of "
               "several inputs a folder with NAME.npy of each), WebDataset shards (.tar, or --source webdataset and "
               "their folder), lines of text (--source text)");
    input.path("tokenizer", &RunConfig::tokenizer, kItems, "FILE", "the path of a tokenizer.json",
               "Source `text`: how lines become tokens; none: MODEL.tokenizer.json beside MODEL.pt2");
    input.word("synthetic-on", &RunConfig::synthetic_on, of_slabs(is_synthetic), {"host", "device"},
               "Synthetic items are made on the host and uploaded, or lie on the device");
    input.whole("batches", &RunConfig::batches, kItems, {1, kAnyNumber, "auto"}, "Batches of a synthetic source");
    input.whole("limit", &RunConfig::limit, kItems, {1, kAnyNumber, "all"}, "Items at most: the first of the input");
    input.text("shard", &RunConfig::shard, of_slabs(is_sharded), "I/N", "I/N with I from 1 to N, as 1/4",
               "Only the I-th of N equal parts of the input, whose order is stable", check_shard);
    input.whole("batch", &RunConfig::batch, of_slabs(shows_its_batches), {1, 65536, "auto"}, "Samples in a batch");
    input.whole("image-size", &RunConfig::image_size, of_slabs(has_a_model, reads_pictures),
                {kSmallestImageSize, kLargestImageSize, "auto"},
                "Height and width that images are brought to, or that are cut from their middle (--resize-size)");
    input.whole(
        "resize-size", &RunConfig::resize_size, of_slabs(cuts_pictures, reads_cut_pictures),
        {kSmallestImageSize, kLargestImageSize, "auto"},
        "Length that an image's shorter side is brought to, its proportions kept, before --image-size is cut from the "
        "middle; auto: as the notes beside the model say, else all of the image is squeezed into --image-size");
    input.word("interpolation", &RunConfig::interpolation, of_slabs(is_bicubic), {"auto", "bilinear", "bicubic"},
               "How images are resized; auto: as the notes beside the model say, else bilinear");
    input.whole("decode-workers", &RunConfig::decode_workers, kConduct, {1, 1024, "auto"},
                "Threads that read and decode items");
    input.whole("prefetch", &RunConfig::prefetch, kConduct, {1, 64, ""}, "Batches staged ahead of the model");
    input
        .text("max-errors", &RunConfig::max_errors, kConduct, "N|P%",
              "a number (25) or a share of all items (0% to 100%)",
              "Unreadable items, and such that come to nothing, that a run bears; with one more it fails. A share is "
              "of the whole input, rounded up",
              check_max_errors)
        .toml_types.push_back(TomlType::Integer);
}

void add_model(std::vector<Setting>& table) {
    SettingGroup model(table, "Model");
    model.text("model", &RunConfig::model, of_slabs(always), "NAME|FILE",
               std::string(kPluginName) + "; or the path of a .pt2, .pt or .safetensors file",
               "What is run on each batch: a built-in model, the file of its weights, or a file with a whole model: an "
               "AOTInductor package (.pt2, see ./launch/offramp export) or TorchScript (.pt)",
               check_model);
    model.path("weights", &RunConfig::weights, kKnownByItsBytes, "FILE", "the path of a .safetensors file",
               "The model's weights; none: those it is shipped with, else random ones, made from the seed");
    model.on_off("random-weights", &RunConfig::random_weights, kKnownByItsBytes,
                 "Run a model that has no weights with random ones, made from the seed: for measuring and tests");
    model.whole("seed", &RunConfig::seed, of_slabs(always), {0, kAnyNumber, ""},
                "Seed of random weights and synthetic input");
    model.word("precision", &RunConfig::precision, of_slabs(always), {"auto", "fp32", "tf32", "bf16"},
               "What the model computes in");
    model.word("memory-format", &RunConfig::memory_format, of_slabs(always), {"auto", "contiguous", "channels-last"},
               "Order of the dimensions in memory");
    model.word("transform", &RunConfig::transform, of_slabs(always), {"none", "cast", "class-map", "low-res"},
               "What is done to the output on the device; class-map: argmax to 8 bits; low-res: the model's last "
               "enlargement is left to the consumer");
    model.word("output-dtype", &RunConfig::output_dtype, of_slabs(always), {"auto", "fp32", "fp16", "bf16"},
               "Element type that the transforms cast (auto: fp16) and low-res (auto: fp32) make");
    model.on_off("confidence", &RunConfig::confidence, of_slabs(always),
                 "class-map: a second output, the probability of each pixel's class in 8 bits");
    model.bytes("copy-bytes", &RunConfig::copy_bytes, of_slabs(is_copy), {1, std::int64_t{1} << 40, "auto"},
                "Bytes of a batch of the model `copy`");
    model.text("copy-outputs", &RunConfig::copy_outputs, of_slabs(is_copy), "SHAPES",
               "fp16 shapes of one sample, as 96x256x256,192x128x128",
               "Outputs of the model `copy`, instead of plain bytes", check_shapes);
    model.word("cuda-graphs", &RunConfig::cuda_graphs, kConduct, {"auto", "off"},
               "auto: a small model's kernels are recorded once and replayed, which costs one launch a batch");
    model.on_off("deterministic", &RunConfig::deterministic, of_slabs(always),
                 "No autotuning: equal bits from run to run");
}

void add_slabs(std::vector<Setting>& table) {
    SettingGroup slabs(table, "Slabs and egress");
    slabs.text("device", &RunConfig::device, kMemory, "DEVICE", "auto, cpu, cuda, or cuda:N (0 to 999)",
               "Where the model runs", check_device);
    slabs.whole("slabs", &RunConfig::slabs, kMemory, {2, 4096, "auto"}, "Shared-memory slabs");
    slabs.whole("samples-per-slab", &RunConfig::samples_per_slab, kMemory, {1, 65536, "auto"},
                "Samples of a batch that one slab holds at most");
    slabs.whole("batches-per-slab", &RunConfig::batches_per_slab, kMemory, {1, 4096, "auto"},
                "Whole small batches that share a slab at most");
    slabs.seconds("max-delay-seconds", &RunConfig::max_delay_seconds, kConduct, 0, 60,
                  "A batch waits at most so long for others to share its slab");
    slabs.word("rung", &RunConfig::rung, kMemory,
               {"sequential", "workers", "pool", "async", "streams", "compute-alone"},
               "How outputs leave the device; compute-alone: they are dropped there");
    slabs.on_off("allow-unpinned", &RunConfig::allow_unpinned, kConduct,
                 "Go on, slowly, when slabs cannot be page-locked");
    slabs.word("when-full", &RunConfig::when_full, kMemory, {"block", "drop-newest", "spill"},
               "No slab is free: the model waits; the output is dropped and listed; or the oldest waiting slab goes to "
               "the disk until later");
    slabs.path("spill-dir", &RunConfig::spill_dir, kMemory, "FOLDER", "a path",
               "Where --when-full spill keeps slabs; by default in the run directory");
}

void add_measuring(std::vector<Setting>& table) {
    SettingGroup measuring(table, "Measuring");
    measuring.whole("warmup-batches", &RunConfig::warmup_batches, kConduct, {0, kAnyNumber, ""},
                    "First batches that are left out of the steady rates");
    measuring.on_off("drain-warmup", &RunConfig::drain_warmup, kConduct,
                     "Everything is delivered before the batches behind the warm-up start");
    measuring.whole("measure-limits", &RunConfig::measure_limits, kConduct, {0, kAnyNumber, ""},
                    "Batches of compute alone and of bare copies to measure in the same run");
    measuring.whole("profile-batches", &RunConfig::profile_batches, kConduct, {0, kAnyNumber, ""},
                    "Batches behind the warm-up between cudaProfilerStart and cudaProfilerStop");
    measuring.path("trace-dir", &RunConfig::trace_dir, kConduct, "FOLDER", "a path",
                   "Each program leaves its time ranges here when it ends");
    measuring.seconds("status-seconds", &RunConfig::status_seconds, kConduct, 0.01, 3600,
                      "From one status.json to the next");
}

void add_delivery(std::vector<Setting>& table) {
    SettingGroup delivery(table, "Delivery");
    delivery.seconds("lease-seconds", &RunConfig::lease_seconds, kConduct, 0.1, 86400,
                     "A consumer without progress for so long loses its slab to another one");
    delivery.on_off("kill-overdue", &RunConfig::kill_overdue, kConduct,
                    "Kill a consumer that lost its slab so (SIGKILL)");
    delivery.whole("max-charges", &RunConfig::max_charges, kConduct, {1, 1000, ""},
                   "Consumers that a slab may take down before it is set aside");
    delivery.whole("credits", &RunConfig::credits, kConduct, {1, 256, "auto"}, "Slabs that a consumer holds at once");
    delivery.text("consumer-user", &RunConfig::consumer_user, kMemory, "USER", "a user's name",
                  "Consumers run as this user", check_user);
}

// What is printed of both goes into files and logs: of a header that is given in the clear only that there was one, and
// a URL without its query, and without its credentials, which the processor refuses.
void add_http(SettingGroup& consumers) {
    Setting& url = consumers.text("http-url", &RunConfig::http_url, of_processing(posts), "URL",
                                  "http:// or https://, a host, and a path",
                                  "Processor `http`: where each result is posted to", check_url);
    url.get = [](const RunConfig& config) { return kept_url(config.http_url); };
    url.counting = redacted_url;  // a key in its query may change
    Setting& header = consumers.text("http-header", &RunConfig::http_header, kConduct, "HEADER|@FILE",
                                     "'NAME: VALUE', or @FILE with one a line",
                                     "Processor `http`: sent with each request, as 'Authorization: Bearer ...'; in a "
                                     "file or in OFFRAMP_HTTP_HEADER it does not show in a list of processes");
    header.get = [](const RunConfig& config) { return kept_header(config.http_header); };
    header.anywhere = [](const std::string& text) {
        return text.starts_with('@') ? "@" + whole_path(text.substr(1)) : text;
    };
    consumers.path("http-ca-file", &RunConfig::http_ca_file, kConduct, "FILE", "a path",
                   "Processor `http`: certificates in PEM of the authorities that may vouch for the server, instead of "
                   "the system's");
    consumers.word("http-body", &RunConfig::http_body, of_processing(posts), {"json", "npy"},
                   "Processor `http`: what each result is sent as");
    consumers.whole("http-timeout-seconds", &RunConfig::http_timeout_seconds, kConduct, {1, 3600, ""},
                    "Processor `http`: a request by which nothing moves for so long is tried again");
    consumers.whole(
        "http-patience-seconds", &RunConfig::http_patience_seconds, kConduct, {1, 3600, ""},
        "Processor `http`: a consumer tries one result for so long, then gives its slab back and waits (exit code 75)");
}

void add_consumers(std::vector<Setting>& table) {
    SettingGroup consumers(table, "Consumers");
    consumers.text("processor", &RunConfig::processor, of_processing(always), "NAME[,NAME]",
                   std::string(kPluginName) + "; several with commas",
                   "What is done with each slab; several: each with a folder of its own, OUTPUT/NAME",
                   check_plugin_names);
    consumers.path("output", &RunConfig::output, kPlace, "PATH", "a path", "Folder for results");
    consumers.text("sink", &RunConfig::sink, kPlace, "URI",
                   "postgres://USER@HOST/DATABASE, or libpq's key words: 'host=/run/postgresql dbname=vectors'",
                   "Processors `embeddings-postgres`, `records-postgres`: the database; a password better by "
                   "PGPASSWORD or ~/.pgpass");
    consumers.text("sink-table", &RunConfig::sink_table, kPlace, "NAME",
                   "lower-case letters, digits and '_', at most 48; before it perhaps a schema and '.'",
                   "Table in the database of --sink; auto: `embeddings`, `records`", check_table);
    consumers.whole("sink-patience-seconds", &RunConfig::sink_patience_seconds, kConduct, {1, 86400, ""},
                    "Database of --sink: a consumer waits so long for an answer, then gives its slab back and comes "
                    "again (exit code 75)");
    consumers.word("index", &RunConfig::index, kPlace, {"none", "hnsw"},
                   "Processor `embeddings-postgres`: hnsw makes an index of its vectors when the run has ended");
    consumers.path("write-path", &RunConfig::write_path, of_processing(writes), "FILE", "a path",
                   "Where the processor `write` writes", check_not_empty);
    consumers.on_off("write-copy", &RunConfig::write_copy, kConduct, "`write`: serialise into a copy first");
    consumers.whole("png-level", &RunConfig::png_level, kConduct, {0, 9, ""}, "Compression of PNG files");
    consumers.word("mask-size", &RunConfig::mask_size, of_processing(makes_masks), {"image", "model"},
                   "Size of masks and their run lengths: that of each picture, so that they lie on it; or that of the "
                   "model's output");
    consumers.word("scores", &RunConfig::scores, of_slabs(is_class_map, tells_foregrounds),
                   {"auto", "probability", "logit"},
                   "What a network of one channel gives of each pixel's foreground; auto: as the notes beside the "
                   "model say, else a probability");
    consumers.decimal("threshold", &RunConfig::threshold, of_slabs(is_class_map, tells_foregrounds), 0, 1,
                      "Probability from which a pixel of a network of one channel is foreground");
    consumers.word("image-format", &RunConfig::image_format, of_processing(makes_images), {"png", "jpeg", "webp"},
                   "Processor `image`: files of this kind");
    consumers.whole("image-quality", &RunConfig::image_quality, of_processing(makes_images), {1, 100, ""},
                    "Processor `image`: quality of JPEG and WebP");
    consumers.word("image-range", &RunConfig::image_range, of_processing(makes_images), {"0:1", "-1:1", "0:255"},
                   "Processor `image`: what black and white are in the model's output");
    consumers.on_off("normalize", &RunConfig::normalize, of_processing(makes_vectors),
                     "Embeddings: bring each vector to length 1");
    consumers.word("vector-dtype", &RunConfig::vector_dtype, of_processing(makes_vectors), {"fp32", "fp16"},
                   "Embeddings: what vectors are stored as");
    consumers.whole("truncate-dim", &RunConfig::truncate_dim, of_processing(makes_vectors), {1, 1'000'000, "all"},
                    "Embeddings: store only so many numbers of each vector, the first ones");
    add_http(consumers);
    consumers.on_off("durable", &RunConfig::durable, kPlace,
                     "Flush results, folders and manifest to the disk: they survive a power cut");
    consumers.on_off("resume", &RunConfig::resume, kProgram,
                     "Continue the run that left --output: do only what is missing there");
    consumers.on_off("start-over", &RunConfig::start_over, kProgram,
                     "Replace the results of a run that came to its end, once this run has results of its own");
    consumers.path("retry", &RunConfig::retry, kProgram, "FILE", "a path",
                   "Process this payload of a run's folder quarantine/, and nothing else");
    consumers.on_off("finish", &RunConfig::finish, kProgram,
                     "Merge the segments of all consumers when the run has ended");
}

void add_actions(std::vector<Setting>& table) {
    SettingGroup actions(table, "Instead of a run");
    actions.action("print-config", &RunConfig::print_config, "Print the configuration and exit");
    actions.action("list", &RunConfig::list, "Print the known models, sources and processors and exit");
    actions.action("probe", &RunConfig::probe, "Describe this machine as JSON and exit");
    actions.action("sweep", &RunConfig::sweep, "Remove what dead runs left in /dev/shm and exit");
}

}  // namespace

std::vector<Setting> make_settings() {
    std::vector<Setting> table;
    add_run(table);
    add_input(table);
    add_model(table);
    add_slabs(table);
    add_measuring(table);
    add_delivery(table);
    add_consumers(table);
    add_actions(table);
    return table;
}

}  // namespace offramp
