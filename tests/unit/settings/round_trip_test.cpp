#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/unit/settings/parsing.hpp"

namespace offramp {
namespace {

constexpr std::uint64_t kLargest = std::numeric_limits<std::int64_t>::max();

template <class Number>
Number any_of(Number least, Number most) {
    // inRange excludes its upper end.
    return *rc::gen::oneOf(rc::gen::inRange<Number>(least, most), rc::gen::just(least), rc::gen::just(most));
}

std::uint32_t zero_or(std::uint32_t least, std::uint32_t most) {
    return *rc::gen::arbitrary<bool>() ? 0 : any_of(least, most);
}

std::string any_word(const std::vector<std::string>& words) { return *rc::gen::elementOf(words); }

// Paths of all kinds: quotes, comment signs, commas, brackets, control characters, multi-byte characters.
std::string any_path() {
    static const std::vector<std::string> pieces{"a",      "/",          " ",    "#",  "\"", "'",    "\\",   ",",
                                                 "[",      "]",          "=",    "\n", "\t", "\x01", "\x7f", "\u00e9",
                                                 "\u65e5", "\U0001F600", "true", "12", "%",  "--",   "{"};
    std::string text;
    for (const std::string& piece : *rc::gen::container<std::vector<std::string>>(rc::gen::elementOf(pieces)))
        text += piece;
    return text;
}

RunConfig any_config() {
    RunConfig config;
    config.run_dir = "/" + any_path();
    config.run_id = any_word({"", "run-1", "A.b_c", "0"});
    config.profile = any_word({"default", "article", "embeddings"});
    config.consumers = zero_or(1, 64);
    config.log_level = any_word({"trace", "debug", "info", "warning", "error", "off"});
    config.log_format = *rc::gen::element(LogFormat::Text, LogFormat::Json);
    config.log_file = any_path();
    config.turn = any_path();
    config.lifeline_fd = any_of(-1, std::numeric_limits<int>::max());
    config.producer_restarts = any_of(0U, 1000U);
    config.producer_wait_seconds = *rc::gen::element(0.0, 0.25, 60.0, 86400.0);
    config.source = any_word({"auto", "images", "synthetic", "text"});
    config.input = any_path();
    config.input_list = any_path();
    config.input_index = any_path();
    config.tokenizer = any_path();
    config.id_column = any_word({"id", "key"});
    config.text_column = any_word({"text", "body"});
    config.columns = any_word({"", "year,title"});
    config.synthetic_on = any_word({"host", "device"});
    config.batches = any_of<std::uint64_t>(0, kLargest);
    config.limit = any_of<std::uint64_t>(0, kLargest);
    config.shard = any_word({"", "1/1", "3/4", "1000000/1000000"});
    config.batch = zero_or(1, 65536);
    config.by_length = any_word({"auto", "off", "1", "64", "65536"});
    config.image_size = zero_or(32, 8192);
    config.resize_size = zero_or(32, 8192);
    config.decode = *rc::gen::element<std::string>("cpu", "gpu", "auto");
    config.interpolation = any_word({"auto", "bilinear", "bicubic"});
    config.decode_workers = zero_or(1, 1024);
    config.prefetch = any_of(1U, 64U);
    config.max_errors = any_word({"0", "25", "1%", "0.5%", "100%"});
    config.model = any_word({"deeplabv3-resnet50", "encoder"});
    config.seed = any_of<std::uint64_t>(0, kLargest);
    config.precision = any_word({"auto", "fp32", "tf32", "bf16"});
    config.memory_format = any_word({"auto", "contiguous", "channels-last"});
    config.cuda_graphs = any_word({"auto", "off"});
    config.transform = any_word({"none", "cast", "class-map", "low-res"});
    if (config.transform == "cast") config.output_dtype = any_word({"auto", "fp16", "bf16"});
    if (config.transform == "low-res") config.output_dtype = any_word({"auto", "fp32", "fp16", "bf16"});
    if (config.transform == "class-map") config.confidence = *rc::gen::arbitrary<bool>();
    config.output_tensor = any_word({"", "tokens", "embedding,tokens"});
    config.copy_outputs = any_word({"", "1024", "96x256x256,192x128x128"});
    config.copy_bytes = any_of<std::uint64_t>(0, std::uint64_t{1} << 40);
    config.deterministic = *rc::gen::arbitrary<bool>();
    config.device = any_word({"auto", "cpu", "cuda", "cuda:0", "cuda:7"});
    config.slabs = zero_or(2, 4096);
    config.samples_per_slab = zero_or(1, 65536);
    config.batches_per_slab = zero_or(1, 4096);
    config.slab_bytes = any_of<std::uint64_t>(std::uint64_t{64} << 10, std::uint64_t{1} << 36);
    config.max_delay_seconds = *rc::gen::element(0.0, 0.002, 1.0 / 3.0, 60.0);
    config.catalogue.put("strategy", any_word({"sequential", "workers", "pool", "async", "streams", "compute-alone"}));
    config.drain_warmup = *rc::gen::arbitrary<bool>();
    config.profile_batches = any_of<std::uint64_t>(0, kLargest);
    config.trace_dir = any_path();
    config.status_seconds = *rc::gen::element(0.01, 0.5, 1.0 / 3.0, 3600.0);
    config.allow_unpinned = *rc::gen::arbitrary<bool>();
    config.when_full = *rc::gen::element<std::string>("wait", "drop", "drop-oldest", "spill");
    if (config.when_full == "spill") config.spill_dir = *rc::gen::element<std::string>("", "/disk/spill");
    config.warmup_batches = any_of<std::uint64_t>(0, kLargest);
    config.measure_limits = any_of<std::uint64_t>(0, kLargest);
    config.visibility_timeout =
        *rc::gen::oneOf(rc::gen::element(0.1, 1.0, 30.0, 86400.0, 1.0 / 3.0),
                        rc::gen::map(rc::gen::inRange(1, 1'000'000), [](int n) { return 0.1 + n / 7919.0; }));
    config.kill_stalled = *rc::gen::arbitrary<bool>();
    config.max_failures = any_of(1U, 1000U);
    config.window = zero_or(1, 256);
    config.consumer_user = any_word({"", "post", "www-data"});
    config.processor = any_word({"auto", "write", "checksum", "mask-png", "none", "mask-png,cut-out"});
    config.output = any_path();
    if (*rc::gen::arbitrary<bool>()) {
        config.samples_folder = any_path();
        config.output = config.samples_folder + "/.offramp-shards/7";
    }
    config.sink_table = any_word({"auto", "embeddings", "a.b_2"});
    config.catalogue.put("index", any_word({"none", "hnsw"}));
    config.catalogue.put("write-path", any_path() + "w");
    config.catalogue.put("write-copy", *rc::gen::arbitrary<bool>());
    config.catalogue.put("png-level", any_of(0U, 9U));
    config.catalogue.put("normalize", *rc::gen::arbitrary<bool>());
    config.catalogue.put("vector-columns", any_word({"all", "none"}));
    config.catalogue.put("vector-dtype", any_word({"fp32", "fp16"}));
    config.catalogue.put("truncate-dim", zero_or(1, 1'000'000));
    config.catalogue.put("http-url", any_word({"", "http://127.0.0.1:8000/in", "https://host/a/path#part"}));
    config.catalogue.put("http-header", any_word({"", "@/run/secrets/header"}));
    config.catalogue.put("http-ca-file", any_word({"", "own authorities.pem"}));
    config.catalogue.put("http-body", any_word({"json", "npy"}));
    config.catalogue.put("http-timeout-seconds", any_of(1U, 3600U));
    config.catalogue.put("sink-patience-seconds", any_of(1U, 86400U));
    config.catalogue.put("http-patience-seconds", any_of(1U, 3600U));
    if (*rc::gen::arbitrary<bool>()) {
        config.chunk_tokens = any_of(4U, 1'000'000U);
        config.chunk_overlap = any_of(0U, config.chunk_tokens - 1);
    }
    if (*rc::gen::arbitrary<bool>()) {
        config.tile = any_of(32U, 8192U);
        config.overlap = *rc::gen::arbitrary<bool>() ? "auto" : std::to_string(any_of(0U, (config.tile - 1) / 2));
        config.image_size = *rc::gen::arbitrary<bool>() ? config.tile : 0;
        config.resize_size = 0;  // contradicts it
        config.shard.clear();
        if (config.has_processor("cut-out")) config.processor = "mask-png";
    }
    return config;
}

using RoundTrip = Parsing;

RC_GTEST_FIXTURE_PROP(RoundTrip, TheTomlFormReadsBackToTheSameConfiguration, ()) {
    const RunConfig config = any_config();
    const std::string toml = to_toml(config);
    RC_LOG() << toml;
    const RunConfig read = parse({"--config", write_file(toml)});
    RC_ASSERT(to_toml(read) == toml);
    RC_ASSERT(read == config);
}

TEST_F(RoundTrip, NeitherFormContainsSecrets) {
    const RunConfig config = parse(
        {"--http-url", "https://me:the-word@host/in?key=the-word", "--http-header", "Authorization: Bearer the-word"});
    EXPECT_EQ(config.catalogue.text("http-header"), "Authorization: Bearer the-word");
    for (const std::string& text : {to_toml(config), to_json(config)}) {
        EXPECT_EQ(text.find("the-word"), std::string::npos) << text;
        EXPECT_NE(text.find("https://host/in"), std::string::npos) << text;
    }
    EXPECT_NE(to_toml(parse({"--http-header", "@/run/secrets/header"})).find("@/run/secrets/header"),
              std::string::npos);
}

RC_GTEST_FIXTURE_PROP(RoundTrip, TheJsonFormReportsTheSameAsTheTomlForm, ()) {
    const RunConfig config = any_config();
    const auto object = nlohmann::json::parse(to_json(config));
    std::size_t settings = 0;
    for (const Setting& setting : make_settings()) {
        if (setting.command_line_only) continue;
        ++settings;
        std::visit([&](const auto& value) { RC_ASSERT(object.at(setting.flag) == nlohmann::json(value)); },
                   setting.get(config));
    }
    RC_ASSERT(object.size() == settings);
}

TEST_F(RoundTrip, APrintedConfigurationOmitsActions) {
    RunConfig config;
    config.print_config = config.list = true;
    EXPECT_EQ(to_toml(config), to_toml(RunConfig{}));
    EXPECT_EQ(to_json(config), to_json(RunConfig{}));
}

}  // namespace
}  // namespace offramp
