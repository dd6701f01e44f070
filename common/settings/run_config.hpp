#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/log.hpp"

namespace offramp {

// Of --image-size and --resize-size.
inline constexpr std::uint32_t kSmallestImageSize = 32;
inline constexpr std::uint32_t kLargestImageSize = 8192;

// Everything that a user may set for a run, parsed once and then never changed. The producer and the
// consumers read the same settings; the launch script resolves them through `--print-config`, keeps what
// the producer says in the run directory, gives all programs the user's flags, and consumers what the
// producer settles otherwise than they do.
//
// Precedence: command line > environment (OFFRAMP_ and the flag in capitals: OFFRAMP_BATCH) > --config FILE
// (TOML, keys as the flags without dashes in front) > profile > defaults. What is left at "auto" is resolved
// once the device is known (producer/runner/run/defaults.hpp).
struct RunConfig {
    // the run
    std::string run_dir;              // sockets, status, logs; empty: chosen by the launch script
    std::string run_id;               // names the shared-memory objects
    std::string profile = "default";  // "default", "article"
    std::uint32_t consumers = 0;      // 0: auto
    std::string log_level = "info";
    LogFormat log_format = LogFormat::Text;
    std::string log_file;
    int lifeline_fd = -1;                 // a pipe whose end of file says that the launcher is gone
    std::uint32_t producer_restarts = 3;  // of a producer that dies; the launch script's
    double producer_wait_seconds = 60;    // that a consumer without a launcher waits for another producer; 0: none does
    bool adopt = false;                   // take the run over whose producer died; on the command line only

    // input
    std::string source = "auto";  // a name of the sources' table; auto: source_of_input(); "text" when the model takes
                                  // tokens, "npy" when it takes arrays
    std::string input;            // folder, list, manifest, array, shards or text
    std::string tokenizer;        // tokenizer.json of source "text"; empty: beside the model
    std::string synthetic_on = "host";  // "host": made by decode workers and uploaded; "device": resident
    std::uint64_t batches = 0;          // of a synthetic source; 0: auto
    std::uint64_t limit = 0;            // items at most; 0: all
    std::string shard;                  // "i/N": only the i-th of N equal parts of these; empty: all
    std::uint32_t batch = 0;            // samples in a batch; 0: auto
    std::uint32_t image_size = 0;       // height and width that images are brought to; 0: auto
    // of the shorter side, before image_size is cut from the middle; 0: auto, then all of an image
    std::uint32_t resize_size = 0;
    std::string interpolation = "auto";  // of images: "bilinear", "bicubic"
    std::uint32_t decode_workers = 0;    // 0: auto
    std::uint32_t prefetch = 2;          // batches staged ahead of the model
    std::string max_errors = "10%";      // unreadable items before the run fails: "25" or "1%"

    // model
    // a name of the models' table, a .safetensors file of one's weights, or a model's .pt2 or .pt
    std::string model = "deeplabv3-resnet50";
    std::string weights;          // .safetensors; empty: those that the model is shipped with
    bool random_weights = false;  // where there are none, seeded random ones
    std::uint64_t seed = 0;
    std::string precision = "auto";      // "fp32", "tf32", "bf16"
    std::string memory_format = "auto";  // "contiguous", "channels-last"
    std::string transform = "none";      // "none", "cast", "class-map", "low-res"
    std::string output_dtype = "auto";   // of cast and low-res: "fp32", "fp16", "bf16"; auto: fp16, fp32
    bool confidence = false;             // class-map: a second plane, the winning class's probability in 8 bits
    std::uint64_t copy_bytes = 0;        // model "copy": bytes of a batch; 0: auto
    std::string copy_outputs;    // model "copy": shapes of one sample's outputs, "96x256x256,192x128x128"; empty: bytes
    bool deterministic = false;  // no autotuning: equal bits from run to run
    std::string cuda_graphs = "auto";  // "auto": models of many short kernels are recorded and replayed; "off"

    // slabs and egress
    std::string device = "auto";         // "auto", "cpu", "cuda", "cuda:N"
    std::uint32_t slabs = 0;             // 0: auto
    std::uint32_t samples_per_slab = 0;  // 0: auto
    std::uint32_t batches_per_slab = 0;  // whole small batches that share a slab; 0: auto
    double max_delay_seconds = 0.002;    // a batch waits at most so long for others to share its slab
    std::string rung = "streams";        // how outputs leave the device; "compute-alone": they are dropped there
    bool allow_unpinned = false;
    std::string when_full = "block";  // no slab is free for an output: "block", "drop-newest", "spill"
    std::string spill_dir;            // of "spill"; empty: the run directory's folder spill/

    // measuring
    std::uint64_t warmup_batches = 5;   // left out of the steady-state rates
    bool drain_warmup = false;          // everything is delivered before the measured batches start
    std::uint64_t measure_limits = 0;   // batches of compute alone and of bare copies, measured in the same run
    std::uint64_t profile_batches = 0;  // behind the warm-up, between cudaProfilerStart and cudaProfilerStop
    std::string trace_dir;              // each program leaves its time ranges here; empty: none are recorded
    double status_seconds = 0.5;        // from one status.json to the next

    // delivery
    double lease_seconds = 30;
    bool kill_overdue = false;  // a consumer without progress for so long is killed
    std::uint32_t max_charges = 3;
    std::uint32_t credits = 0;  // slabs that a consumer holds at once; 0: auto, 2 or, of small slabs, more
    std::string consumer_user;  // consumers run as this user: group-readable objects and sockets

    // consumers
    std::string processor = "auto";   // a name of the processors' table, or several with commas
    std::string output;               // folder, or for `write` a path
    std::string sink;                 // a database that rows go to: postgres:// or libpq's key words
    std::string sink_table = "auto";  // there; perhaps SCHEMA.NAME; "auto": each processor's own
    std::uint32_t sink_patience_seconds =
        300;                     // with a database by which nothing moves, before the consumer gives its slab back
    std::string index = "none";  // of vectors there, when the run has ended: "none", "hnsw"
    std::string write_path = "/dev/null";
    bool write_copy = false;  // `write`: serialise into a copy first, as the article does
    std::uint32_t png_level = 3;
    std::string mask_size =
        "image";  // of masks and RLE: "image", that of the picture; "model", that of the model's output
    std::string scores =
        "auto";  // of a network of one channel: "probability", "logit"; auto: the model's notes, else "probability"
    double threshold = 0.5;            // probability from which a pixel of a network of one channel is foreground
    std::string image_format = "png";  // `image`: "png", "jpeg", "webp"
    std::uint32_t image_quality = 90;  // `image`: of JPEG and WebP, 1 to 100
    std::string image_range = "0:1";  // `image`: what black and white are in the model's output: "0:1", "-1:1", "0:255"
    bool normalize = false;           // vectors are brought to length 1
    std::string vector_dtype = "fp32";  // of stored vectors: "fp32", "fp16"
    std::uint32_t truncate_dim = 0;     // first numbers of a vector that are stored; 0: all
    std::string http_url;               // results are posted here, one request a sample and output
    std::string
        http_header;  // "NAME: VALUE" or "@FILE" with one a line: may hold a secret, so that only @FILE is ever printed
    std::string http_ca_file;                  // whose certificates vouch for the server; empty: the system's
    std::string http_body = "json";            // "json", "npy"
    std::uint32_t http_timeout_seconds = 30;   // of a request by which nothing moves
    std::uint32_t http_patience_seconds = 20;  // with a server that is away, before the consumer gives its slab back
    bool durable = false;                      // results and manifest survive a power cut, too
    bool resume = false;                       // do only what the output folder's manifest does not hold
    bool start_over = false;  // replace what an earlier run left in `output`, once this one has made it anew
    std::string retry;        // a payload that an earlier run set aside: process it, and nothing else
    bool finish = false;      // merge the segments of all consumers when the run has ended

    // what to do instead of a run: on the command line only, never part of a printed configuration
    bool print_config = false;
    bool list = false;   // names of models, sources, processors
    bool probe = false;  // describe this machine as JSON
    bool sweep = false;  // remove what dead runs left in /dev/shm

    // The names in `processor`.
    std::vector<std::string> processors() const;
    bool has_processor(std::string_view name) const;
    // `sink` is a PostgreSQL, by its form.
    bool has_postgres_sink() const;
    // What the processors' tables there hold, by their names: "embeddings" of `embeddings-postgres`.
    std::vector<std::string> postgres_contents() const;
    // The table that holds it.
    std::string postgres_table_of(std::string_view contents) const {
        return sink_table == "auto" ? std::string(contents) : sink_table;
    }

    // Each slab's shared memory is made when the slab is filled, and goes with its producer.
    bool makes_memory_per_slab() const { return rung == "workers"; }

    bool operator==(const RunConfig&) const = default;
};

// Parses a program's arguments, environment and file. `program` is what --help and --version call it.
// That the weights can be read is checked for every program but "offramp-consumer"; other inputs are their
// opener's to check. Errors: ConfigError names flag, value and what is accepted. Its exit code is Usage,
// Config when the file is to blame, NoInput for the weights. `--help` and `--version` print and return
// nothing.
std::optional<RunConfig> parse_run_config(int argc, const char* const* argv, const std::string& program);

// The configuration as TOML that parse_run_config reads back to the same values.
std::string to_toml(const RunConfig& config);
// The same as JSON, for programs: one object, keys as in the TOML file.
std::string to_json(const RunConfig& config);

}  // namespace offramp
