#include <algorithm>
#include <limits>

#include "common/base/error.hpp"
#include "common/base/shown_url.hpp"
#include "common/config/error_limit.hpp"
#include "common/config/output_shapes.hpp"
#include "common/config/profile.hpp"
#include "common/config/setting.hpp"
#include "common/config/shard.hpp"
#include "common/shm/run_objects.hpp"

namespace offramp {
namespace {

using Problem = std::optional<std::string>;

constexpr std::int64_t kAnyNumber = std::numeric_limits<std::int64_t>::max();

bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

Problem check_run_id(const std::string& text) {
    if (text.empty()) return std::nullopt;
    try {
        RunNames::check_run_id(text);
    } catch (const ConfigError&) {
        return "is not a run id";
    }
    return std::nullopt;
}

Problem check_max_errors(const std::string& text) {
    if (!ErrorLimit::parse(text)) return "is neither a number nor a percentage";
    return std::nullopt;
}

Problem check_shard(const std::string& text) {
    if (!text.empty() && !Shard::parse(text)) return "is not a shard";
    return std::nullopt;
}

Problem check_device(const std::string& text) {
    if (text == "auto" || text == "cpu" || text == "cuda") return std::nullopt;
    const std::string index = text.starts_with("cuda:") ? text.substr(5) : "";
    const bool plain =
        !index.empty() && index.size() <= 3 && std::all_of(index.begin(), index.end(), is_digit);
    if (!plain || (index.size() > 1 && index.front() == '0')) return "is not a device";
    return std::nullopt;
}

// Which models, sources and processors there are is known to the tables that CMake makes of the plug-ins;
// here only what a file's name can be. A '_' is let through for those who tell which name was meant.
Problem check_plugin_name(const std::string& text) {
    const bool plain = std::all_of(text.begin(), text.end(),
                                   [](char c) { return is_digit(c) || (c >= 'a' && c <= 'z') || c == '-' || c == '_'; });
    if (text.empty() || !plain) return "is not such a name";
    return std::nullopt;
}

// Several names with commas between.
Problem check_plugin_names(const std::string& text) {
    for (std::size_t begin = 0; begin <= text.size();) {
        const std::size_t end = std::min(text.find(',', begin), text.size());
        if (auto problem = check_plugin_name(text.substr(begin, end - begin))) return problem;
        begin = end + 1;
    }
    return std::nullopt;
}

// A name, or a file that says by itself what model it holds.
Problem check_model(const std::string& text) {
    for (const char* extension : {".safetensors", ".pt2", ".pt"})
        if (text.ends_with(extension)) return std::nullopt;
    return check_plugin_name(text);
}

Problem check_shapes(const std::string& text) {
    if (!text.empty() && !OutputShapes::parse(text)) return "is not a list of shapes";
    return std::nullopt;
}

Problem check_url(const std::string& text) {
    const bool known = text.starts_with("http://") || text.starts_with("https://");
    if (!text.empty() && !known) return "is not a URL of HTTP";
    return std::nullopt;
}

Problem check_user(const std::string& text) {
    if (text.find_first_of(" \t\n:/") != std::string::npos) return "is not a user's name";
    return std::nullopt;
}

// Neither quotes nor capitals are ever needed to name it in SQL.
Problem check_table(const std::string& text) {
    constexpr std::size_t kMost = 48;   // PostgreSQL's 63, less what we append
    for (std::size_t begin = 0, parts = 1; begin <= text.size(); ++parts) {
        const std::size_t end = std::min(text.find('.', begin), text.size());
        const std::string part = text.substr(begin, end - begin);
        const bool plain = std::ranges::all_of(part, [](char c) { return is_digit(c) || (c >= 'a' && c <= 'z') || c == '_'; });
        if (!plain || part.empty() || is_digit(part.front()) || part.size() > kMost || parts > 2) return "is not the name of a table";
        begin = end + 1;
    }
    return std::nullopt;
}

Problem check_not_empty(const std::string& text) {
    if (text.empty()) return "is empty";
    return std::nullopt;
}

constexpr const char* kPluginName = "lower-case letters, digits and '-'; --list prints the known names";

void add_run(std::vector<Setting>& table) {
    SettingGroup run(table, "The run");
    run.text("run-dir", &RunConfig::run_dir, "FOLDER", "a path", "Sockets, status and logs of the run");
    run.text("run-id", &RunConfig::run_id, "ID", "letters, digits, '.', '_' and '-', at most 48 bytes",
             "Names the shared-memory objects", check_run_id);
    run.word("profile", &RunConfig::profile, profile_names(), "Settings that go together");
    run.whole("consumers", &RunConfig::consumers, {1, 64, "auto"}, "Consumer processes");
    run.word("log-level", &RunConfig::log_level, {"trace", "debug", "info", "warning", "error", "off"},
             "Least important lines that are logged");
    run.log_format("log-format", &RunConfig::log_format, "Form of the log's lines");
    run.text("log-file", &RunConfig::log_file, "FILE", "a path", "Log here as well as to standard error");
    run.whole("lifeline-fd", &RunConfig::lifeline_fd, {-1, std::numeric_limits<int>::max(), ""},
              "Pipe whose end of file says that the launcher is gone; -1: none");
    run.whole("producer-restarts", &RunConfig::producer_restarts, {0, 1000, ""},
              "How often a producer that dies is started again, to take over what it left");
    run.seconds("producer-wait-seconds", &RunConfig::producer_wait_seconds, 0, 86400,
                "A consumer without a launcher waits so long for another producer when its own has died; 0: it ends with it");
    run.action("adopt", &RunConfig::adopt,
               "Take over the run in --run-dir whose producer died; the other flags must be those it was started with");
}

void add_input(std::vector<Setting>& table) {
    SettingGroup input(table, "Input");
    input.text("source", &RunConfig::source, "NAME", kPluginName, "Where items come from", check_plugin_name);
    input.text("input", &RunConfig::input, "PATH", "a path",
               "Folder of images, a file that lists them (paths, or JSON in .jsonl), a .npy array (for a model of several inputs a folder with NAME.npy of each), "
               "WebDataset shards (.tar, or --source webdataset and their folder), lines of text (--source text)");
    input.text("tokenizer", &RunConfig::tokenizer, "FILE", "the path of a tokenizer.json",
               "Source `text`: how lines become tokens; none: MODEL.tokenizer.json beside MODEL.pt2");
    input.word("synthetic-on", &RunConfig::synthetic_on, {"host", "device"},
               "Synthetic items are made on the host and uploaded, or lie on the device");
    input.whole("batches", &RunConfig::batches, {1, kAnyNumber, "auto"}, "Batches of a synthetic source");
    input.whole("limit", &RunConfig::limit, {1, kAnyNumber, "all"}, "Items at most: the first of the input");
    input.text("shard", &RunConfig::shard, "I/N", "I/N with I from 1 to N, as 1/4", "Only the I-th of N equal parts of the input, whose order is stable",
               check_shard);
    input.whole("batch", &RunConfig::batch, {1, 65536, "auto"}, "Samples in a batch");
    input.whole("image-size", &RunConfig::image_size, {kSmallestImageSize, kLargestImageSize, "auto"},
                "Height and width that images are brought to, or that are cut from their middle (--resize-size)");
    input.whole("resize-size", &RunConfig::resize_size, {kSmallestImageSize, kLargestImageSize, "auto"},
                "Length that an image's shorter side is brought to, its proportions kept, before --image-size is cut from the middle; auto: as the notes beside the "
                "model say, else all of the image is squeezed into --image-size");
    input.word("interpolation", &RunConfig::interpolation, {"auto", "bilinear", "bicubic"},
               "How images are resized; auto: as the notes beside the model say, else bilinear");
    input.whole("decode-workers", &RunConfig::decode_workers, {1, 1024, "auto"},
                "Threads that read and decode items");
    input.whole("prefetch", &RunConfig::prefetch, {1, 64, ""}, "Batches staged ahead of the model");
    input
        .text("max-errors", &RunConfig::max_errors, "N|P%",
              "a number (25) or a share of all items (0% to 100%)",
              "Unreadable items that a run bears; with one more it fails. A share is of the whole input, rounded up",
              check_max_errors)
        .toml_types.push_back(TomlType::Integer);
}

void add_model(std::vector<Setting>& table) {
    SettingGroup model(table, "Model");
    model.text("model", &RunConfig::model, "NAME|FILE", std::string(kPluginName) + "; or the path of a .pt2, .pt or .safetensors file",
               "What is run on each batch: a built-in model, the file of its weights, or a file with a whole model: an AOTInductor "
               "package (.pt2, see ./launch/offramp export) or TorchScript (.pt)",
               check_model);
    model.text("weights", &RunConfig::weights, "FILE", "the path of a .safetensors file",
               "The model's weights; none: those it is shipped with, else random ones, made from the seed");
    model.on_off("random-weights", &RunConfig::random_weights, "Run a model that has no weights with random ones, made from the seed: for measuring and tests");
    model.whole("seed", &RunConfig::seed, {0, kAnyNumber, ""}, "Seed of random weights and synthetic input");
    model.word("precision", &RunConfig::precision, {"auto", "fp32", "tf32", "bf16"},
               "What the model computes in");
    model.word("memory-format", &RunConfig::memory_format, {"auto", "contiguous", "channels-last"},
               "Order of the dimensions in memory");
    model.word("transform", &RunConfig::transform, {"none", "cast", "class-map", "low-res"},
               "What is done to the output on the device; class-map: argmax to 8 bits; low-res: the model's last "
               "enlargement is left to the consumer");
    model.word("output-dtype", &RunConfig::output_dtype, {"auto", "fp32", "fp16", "bf16"},
               "Element type that the transforms cast (auto: fp16) and low-res (auto: fp32) make");
    model.on_off("confidence", &RunConfig::confidence,
                 "class-map: a second output, the probability of each pixel's class in 8 bits");
    model.bytes("copy-bytes", &RunConfig::copy_bytes, {1, std::int64_t{1} << 40, "auto"},
                "Bytes of a batch of the model `copy`");
    model.text("copy-outputs", &RunConfig::copy_outputs, "SHAPES", "fp16 shapes of one sample, as 96x256x256,192x128x128",
               "Outputs of the model `copy`, instead of plain bytes", check_shapes);
    model.word("cuda-graphs", &RunConfig::cuda_graphs, {"auto", "off"},
               "auto: a small model's kernels are recorded once and replayed, which costs one launch a batch");
    model.on_off("deterministic", &RunConfig::deterministic, "No autotuning: equal bits from run to run");
}

void add_slabs(std::vector<Setting>& table) {
    SettingGroup slabs(table, "Slabs and egress");
    slabs.text("device", &RunConfig::device, "DEVICE", "auto, cpu, cuda, or cuda:N (0 to 999)",
               "Where the model runs", check_device);
    slabs.whole("slabs", &RunConfig::slabs, {2, 4096, "auto"}, "Shared-memory slabs");
    slabs.whole("samples-per-slab", &RunConfig::samples_per_slab, {1, 65536, "auto"},
                "Samples of a batch that one slab holds at most");
    slabs.whole("batches-per-slab", &RunConfig::batches_per_slab, {1, 4096, "auto"},
                "Whole small batches that share a slab at most");
    slabs.seconds("max-delay-seconds", &RunConfig::max_delay_seconds, 0, 60,
                  "A batch waits at most so long for others to share its slab");
    slabs.word("rung", &RunConfig::rung, {"sequential", "workers", "pool", "async", "streams", "compute-alone"},
               "How outputs leave the device; compute-alone: they are dropped there");
    slabs.on_off("allow-unpinned", &RunConfig::allow_unpinned,
                 "Go on, slowly, when slabs cannot be page-locked");
    slabs.word("when-full", &RunConfig::when_full, {"block", "drop-newest", "spill"},
               "No slab is free: the model waits; the output is dropped and listed; or the oldest waiting slab goes to the disk until later");
    slabs.text("spill-dir", &RunConfig::spill_dir, "FOLDER", "a path",
               "Where --when-full spill keeps slabs; by default in the run directory");
}

void add_measuring(std::vector<Setting>& table) {
    SettingGroup measuring(table, "Measuring");
    measuring.whole("warmup-batches", &RunConfig::warmup_batches, {0, kAnyNumber, ""},
                    "First batches that are left out of the steady rates");
    measuring.on_off("drain-warmup", &RunConfig::drain_warmup,
                     "Everything is delivered before the batches behind the warm-up start");
    measuring.whole("measure-limits", &RunConfig::measure_limits, {0, kAnyNumber, ""},
                    "Batches of compute alone and of bare copies to measure in the same run");
    measuring.whole("profile-batches", &RunConfig::profile_batches, {0, kAnyNumber, ""},
                    "Batches behind the warm-up between cudaProfilerStart and cudaProfilerStop");
    measuring.text("trace-dir", &RunConfig::trace_dir, "FOLDER", "a path",
                   "Each program leaves its time ranges here when it ends");
    measuring.seconds("status-seconds", &RunConfig::status_seconds, 0.01, 3600, "From one status.json to the next");
}

void add_delivery(std::vector<Setting>& table) {
    SettingGroup delivery(table, "Delivery");
    delivery.seconds("lease-seconds", &RunConfig::lease_seconds, 0.1, 86400,
                     "A consumer without progress for so long loses its slab to another one");
    delivery.on_off("kill-overdue", &RunConfig::kill_overdue, "Kill a consumer that lost its slab so (SIGKILL)");
    delivery.whole("max-charges", &RunConfig::max_charges, {1, 1000, ""},
                   "Consumers that a slab may take down before it is set aside");
    delivery.whole("credits", &RunConfig::credits, {1, 256, "auto"}, "Slabs that a consumer holds at once");
    delivery.text("consumer-user", &RunConfig::consumer_user, "USER", "a user's name",
                  "Consumers run as this user", check_user);
}

// What is printed of both goes into files and logs: a header that is given in the clear is left out, and so are a URL's query and its
// credentials, which the processor refuses.
void add_http(SettingGroup& consumers) {
    consumers
        .text("http-url", &RunConfig::http_url, "URL", "http:// or https://, a host, and a path", "Processor `http`: where each result is posted to",
              check_url)
        .get = [](const RunConfig& config) { return kept_url(config.http_url); };
    consumers
        .text("http-header", &RunConfig::http_header, "HEADER|@FILE", "'NAME: VALUE', or @FILE with one a line",
              "Processor `http`: sent with each request, as 'Authorization: Bearer ...'; in a file or in OFFRAMP_HTTP_HEADER it does not show in a "
              "list of processes")
        .get = [](const RunConfig& config) { return config.http_header.starts_with('@') ? config.http_header : std::string(); };
    consumers.text("http-ca-file", &RunConfig::http_ca_file, "FILE", "a path",
                   "Processor `http`: certificates in PEM of the authorities that may vouch for the server, instead of the system's");
    consumers.word("http-body", &RunConfig::http_body, {"json", "npy"}, "Processor `http`: what each result is sent as");
    consumers.whole("http-timeout-seconds", &RunConfig::http_timeout_seconds, {1, 3600, ""},
                    "Processor `http`: a request by which nothing moves for so long is tried again");
    consumers.whole("http-patience-seconds", &RunConfig::http_patience_seconds, {1, 3600, ""},
                    "Processor `http`: a consumer tries one result for so long, then gives its slab back and waits (exit code 75)");
}

void add_consumers(std::vector<Setting>& table) {
    SettingGroup consumers(table, "Consumers");
    consumers.text("processor", &RunConfig::processor, "NAME[,NAME]", std::string(kPluginName) + "; several with commas",
                   "What is done with each slab; several: each with a folder of its own, OUTPUT/NAME", check_plugin_names);
    consumers.text("output", &RunConfig::output, "PATH", "a path", "Folder for results");
    consumers.text("sink", &RunConfig::sink, "URI", "postgres://USER@HOST/DATABASE, or libpq's key words: 'host=/run/postgresql dbname=vectors'",
                   "Processors `embeddings-postgres`, `records-postgres`: the database; a password better by PGPASSWORD or ~/.pgpass");
    consumers.text("sink-table", &RunConfig::sink_table, "NAME", "lower-case letters, digits and '_', at most 48; before it perhaps a schema and '.'",
                   "Table in the database of --sink; auto: `embeddings`, `records`", check_table);
    consumers.whole("sink-patience-seconds", &RunConfig::sink_patience_seconds, {1, 86400, ""},
                    "Database of --sink: a consumer waits so long for an answer, then gives its slab back and comes again (exit code 75)");
    consumers.word("index", &RunConfig::index, {"none", "hnsw"}, "Processor `embeddings-postgres`: hnsw makes an index of its vectors when the run has ended");
    consumers.text("write-path", &RunConfig::write_path, "FILE", "a path",
                   "Where the processor `write` writes", check_not_empty);
    consumers.on_off("write-copy", &RunConfig::write_copy, "`write`: serialise into a copy first");
    consumers.whole("png-level", &RunConfig::png_level, {0, 9, ""}, "Compression of PNG files");
    consumers.word("mask-size", &RunConfig::mask_size, {"image", "model"},
                   "Size of masks and their run lengths: that of each picture, so that they lie on it; or that of the model's output");
    consumers.word("scores", &RunConfig::scores, {"auto", "probability", "logit"},
                   "What a network of one channel gives of each pixel's foreground; auto: as the notes beside the model say, else a probability");
    consumers.decimal("threshold", &RunConfig::threshold, 0, 1, "Probability from which a pixel of a network of one channel is foreground");
    consumers.word("image-format", &RunConfig::image_format, {"png", "jpeg", "webp"}, "Processor `image`: files of this kind");
    consumers.whole("image-quality", &RunConfig::image_quality, {1, 100, ""}, "Processor `image`: quality of JPEG and WebP");
    consumers.word("image-range", &RunConfig::image_range, {"0:1", "-1:1", "0:255"}, "Processor `image`: what black and white are in the model's output");
    consumers.on_off("normalize", &RunConfig::normalize, "Embeddings: bring each vector to length 1");
    consumers.word("vector-dtype", &RunConfig::vector_dtype, {"fp32", "fp16"}, "Embeddings: what vectors are stored as");
    consumers.whole("truncate-dim", &RunConfig::truncate_dim, {1, 1'000'000, "all"},
                    "Embeddings: store only so many numbers of each vector, the first ones");
    add_http(consumers);
    consumers.on_off("durable", &RunConfig::durable,
                     "Flush results, folders and manifest to the disk: they survive a power cut");
    consumers.on_off("resume", &RunConfig::resume, "Continue the run that left --output: do only what is missing there");
    consumers.on_off("start-over", &RunConfig::start_over,
                     "Replace the results of a run that came to its end, once this run has results of its own");
    consumers.text("retry", &RunConfig::retry, "FILE", "a path",
                   "Process this payload of a run's folder quarantine/, and nothing else");
    consumers.on_off("finish", &RunConfig::finish,
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
