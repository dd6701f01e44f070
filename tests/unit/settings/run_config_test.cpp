#include <gmock/gmock.h>

#include <iterator>
#include <set>
#include <sstream>

#include "common/base/version.hpp"
#include "tests/unit/settings/parsing.hpp"

namespace offramp {
namespace {

using testing::HasSubstr;

TEST_F(Parsing, UsesTheDefaultsWithoutSettings) { EXPECT_EQ(parse(), RunConfig{}); }

// Each source of settings overrides the ones below it, in every combination.
TEST_F(Parsing, CommandLineBeatsEnvironmentBeatsFileBeatsProfileBeatsDefault) {
    const std::string file = write_file("batch = 3\n");
    for (unsigned sources = 0; sources < 16; ++sources) {
        std::vector<std::string> arguments;
        std::uint32_t expected = RunConfig{}.batch;
        if (sources & 1) {
            arguments.insert(arguments.end(), {"--profile", "article"});
            expected = 64;
        }
        if (sources & 2) {
            arguments.insert(arguments.end(), {"--config", file});
            expected = 3;
        }
        ::unsetenv("OFFRAMP_BATCH");
        if (sources & 4) {
            set_environment("OFFRAMP_BATCH", "4");
            expected = 4;
        }
        if (sources & 8) {
            arguments.insert(arguments.end(), {"--batch", "5"});
            expected = 5;
        }
        EXPECT_EQ(parse(arguments).batch, expected) << "combination " << sources;
    }
}

TEST_F(Parsing, AProfileFromAnySourceStaysTheWeakest) {
    set_environment("OFFRAMP_PROFILE", "article");
    EXPECT_EQ(parse().batch, 64U);
    EXPECT_EQ(parse({"--profile", "default"}).batch, 0U);
    ::unsetenv("OFFRAMP_PROFILE");
    const RunConfig config = parse({"--config", write_file("image-size = 224\nprofile = 'article'\n")});
    EXPECT_EQ(config.profile, "article");
    EXPECT_EQ(config.image_size, 224U);
    EXPECT_EQ(config.batch, 64U);
}

TEST_F(Parsing, TheEnvironmentMayNameTheFile) {
    set_environment("OFFRAMP_CONFIG", write_file("batch = 7"));
    EXPECT_EQ(parse().batch, 7U);
    EXPECT_EQ(parse({"--config", write_file("batch = 8", "other.toml")}).batch, 8U);
}

TEST_F(Parsing, IgnoresAnEmptyVariable) {
    set_environment("OFFRAMP_BATCH", "");
    EXPECT_EQ(parse().batch, 0U);
}

TEST_F(Parsing, TheArticleProfileIsTheArticlesExperiment) {
    const RunConfig config = parse({"--profile", "article"});
    RunConfig expected;
    expected.profile = "article";
    expected.consumers = expected.slabs = expected.decode_workers = 8;
    expected.batch = 64;
    expected.image_size = 512;
    expected.random_weights = true;
    expected.source = "synthetic";
    expected.synthetic_on = "host";
    expected.model = "deeplabv3-resnet50";
    expected.memory_format = "contiguous";
    expected.processor = "write";
    expected.catalogue.put("write-path", "/dev/null");
    expected.catalogue.put("write-copy", true);
    expected.batches = 110;
    expected.warmup_batches = 10;
    EXPECT_EQ(config, expected);
}

TEST_F(Parsing, EveryFlagReachesItsOwnMember) {
    const std::string weights = write_file("", "weights.safetensors");
    std::istringstream flags(
        "--run-id=r-1.x_Y --consumers 3 --log-level debug --log-format json --log-file l.jsonl "
        "--lifeline-fd 9 --producer-restarts 4 --producer-wait-seconds 2.5 --source images --input in "
        "--synthetic-on device --batches 11 --limit 12 --batch 13 --image-size 130 --decode-workers 14 "
        "--prefetch 15 --max-errors 1.5% --model encoder --seed 16 --precision bf16 "
        "--memory-format channels-last --transform low-res --output-dtype bf16 --copy-outputs 3x4,5 "
        "--copy-bytes 17 --deterministic --device cuda:3 --slabs 18 --samples-per-slab 19 "
        "--batches-per-slab 24 --max-delay-seconds 0.5 --strategy async --drain-warmup --profile-batches 25 "
        "--trace-dir t --status-seconds 0.25 --allow-unpinned --warmup-batches 20 --measure-limits 21 "
        "--visibility-timeout 2.5 --kill-stalled --max-failures 22 --window 23 --consumer-user post "
        "--processor mask-png,embeddings-postgres --sink-table own.vectors --index hnsw --output out "
        "--write-path w --write-copy --png-level 9 --random-weights --mask-size model --scores logit "
        "--threshold 0.25 --image-format webp --image-quality 80 --encode gpu --image-range -1:1 "
        "--picture-size model --mask-palette none --print-config --list");
    std::vector<std::string> words(std::istream_iterator<std::string>(flags), {});
    words.insert(words.end(), {"--run-dir", "runs/a b", "--weights", weights, "--sink", "host=/run/p dbname=d"});
    const RunConfig config = parse(words);
    RunConfig expected;
    expected.run_dir = std::filesystem::current_path() / "runs/a b";
    expected.run_id = "r-1.x_Y";
    expected.consumers = 3;
    expected.log_level = "debug";
    expected.log_format = LogFormat::Json;
    expected.log_file = "l.jsonl";
    expected.lifeline_fd = 9;
    expected.producer_restarts = 4;
    expected.producer_wait_seconds = 2.5;
    expected.source = "images";
    expected.input = "in";
    expected.synthetic_on = "device";
    expected.batches = 11;
    expected.limit = 12;
    expected.batch = 13;
    expected.image_size = 130;
    expected.decode_workers = 14;
    expected.prefetch = 15;
    expected.max_errors = "1.5%";
    expected.model = "encoder";
    expected.weights = weights;
    expected.seed = 16;
    expected.precision = "bf16";
    expected.memory_format = "channels-last";
    expected.transform = "low-res";
    expected.output_dtype = "bf16";
    expected.copy_outputs = "3x4,5";
    expected.copy_bytes = 17;
    expected.deterministic = true;
    expected.device = "cuda:3";
    expected.slabs = 18;
    expected.samples_per_slab = 19;
    expected.batches_per_slab = 24;
    expected.max_delay_seconds = 0.5;
    expected.catalogue.put("strategy", "async");
    expected.drain_warmup = true;
    expected.profile_batches = 25;
    expected.trace_dir = "t";
    expected.status_seconds = 0.25;
    expected.allow_unpinned = true;
    expected.warmup_batches = 20;
    expected.measure_limits = 21;
    expected.visibility_timeout = 2.5;
    expected.kill_stalled = true;
    expected.max_failures = 22;
    expected.window = 23;
    expected.consumer_user = "post";
    expected.processor = "mask-png,embeddings-postgres";
    expected.sink = "host=/run/p dbname=d";
    expected.sink_table = "own.vectors";
    expected.catalogue.put("index", "hnsw");
    expected.output = "out";
    expected.catalogue.put("write-path", "w");
    expected.catalogue.put("write-copy", true);
    expected.catalogue.put("png-level", 9);
    expected.random_weights = true;
    expected.catalogue.put("mask-size", "model");
    expected.scores = "logit";
    expected.threshold = 0.25;
    expected.catalogue.put("image-format", "webp");
    expected.catalogue.put("image-quality", 80);
    expected.catalogue.put("encode", "gpu");
    expected.catalogue.put("image-range", "-1:1");
    expected.catalogue.put("picture-size", "model");
    expected.catalogue.put("mask-palette", "none");
    expected.print_config = expected.list = true;
    EXPECT_EQ(config, expected);
}

TEST_F(Parsing, SwitchesAcceptAValueFromAnySource) {
    EXPECT_TRUE(parse({"--durable"}).durable);
    EXPECT_FALSE(parse({"--durable=false"}).durable);
    for (const char* on : {"1", "true"}) {
        set_environment("OFFRAMP_DURABLE", on);
        EXPECT_TRUE(parse().durable) << on;
        EXPECT_FALSE(parse({"--durable=0"}).durable) << on;
    }
    for (const char* off : {"0", "false"}) {
        set_environment("OFFRAMP_DURABLE", off);
        EXPECT_FALSE(parse({"--config", write_file("durable = true")}).durable) << off;
    }
}

TEST_F(Parsing, UnderstandsWordsForZeroAndByteSuffixes) {
    EXPECT_EQ(parse({"--batch", "auto"}).batch, 0U);
    EXPECT_EQ(parse({"--limit", "all"}).limit, 0U);
    EXPECT_EQ(parse({"--copy-bytes", "auto"}).copy_bytes, 0U);
    EXPECT_EQ(parse({"--copy-bytes", "64MiB"}).copy_bytes, 64ULL << 20);
    EXPECT_EQ(parse({"--copy-bytes", "3GB"}).copy_bytes, 3'000'000'000ULL);
    EXPECT_EQ(parse({"--config", write_file("copy-bytes = '2KiB'")}).copy_bytes, 2048U);
    EXPECT_EQ(parse({"--config", write_file("max-errors = 25")}).max_errors, "25");
    EXPECT_EQ(parse({"--config", write_file("visibility-timeout = 12")}).visibility_timeout, 12);
}

TEST_F(Parsing, AValueWithBoundsStartsWithTheValue) {
    EXPECT_EQ(parse({"--consumers", "2..12"}).consumers, 2U);
    EXPECT_EQ(parse({"--config", write_file("consumers = \"3..3\"\n")}).consumers, 3U);
    EXPECT_EQ(parse({"--config", write_file("consumers = \"auto\"\n")}).consumers, 0U);
    set_environment("OFFRAMP_CONSUMERS", "1..64");
    EXPECT_EQ(parse().consumers, 1U);
}

TEST_F(Parsing, UsesTheLastOfARepeatedFlag) { EXPECT_EQ(parse({"--batch", "2", "--batch", "3"}).batch, 3U); }

TEST_F(Parsing, KeepsAmbiguousValuesAsText) {
    EXPECT_EQ(parse({"--input", "[a,b]"}).input, "[a,b]");
    EXPECT_EQ(parse({"--input", "a,b c#d"}).input, "a,b c#d");
    EXPECT_EQ(parse({"--input=\"q\""}).input, "\"q\"");
    EXPECT_EQ(parse({"--lifeline-fd", "-1"}).lifeline_fd, -1);
}

TEST_F(Parsing, HelpNamesEveryFlagAndEndsParsing) {
    testing::internal::CaptureStdout();
    EXPECT_EQ(try_parse({"--help-all"}), std::nullopt);
    const std::string help = testing::internal::GetCapturedStdout();
    std::set<std::string> groups;
    std::set<std::string> of_the_launcher;
    for (const Setting& setting : make_settings()) {
        const bool is_listed = setting.listing != Listing::Nowhere;
        EXPECT_EQ(help.find("--" + setting.flag + " ") != std::string::npos, is_listed) << setting.flag;
        EXPECT_EQ(help.find(setting.help) != std::string::npos, is_listed) << setting.flag;
        if (!is_listed) of_the_launcher.insert(setting.flag);
        groups.insert(setting.group);
    }
    EXPECT_EQ(of_the_launcher,
              (std::set<std::string>{"input-index", "input-list", "lifeline-fd", "samples-folder", "turn"}));
    for (const std::string& group : groups) EXPECT_THAT(help, HasSubstr("\n" + group + ":\n"));
}

TEST_F(Parsing, TheShortHelpListsAtMostSixtyFlags) {
    testing::internal::CaptureStdout();
    EXPECT_EQ(try_parse({"--help"}), std::nullopt);
    const std::string help = testing::internal::GetCapturedStdout();
    std::size_t flags = 0;
    for (std::size_t at = help.find("\n  -"); at != std::string::npos; at = help.find("\n  -", at + 1)) ++flags;
    EXPECT_GT(flags, 30U);
    EXPECT_LE(flags, 60U);
    EXPECT_THAT(help, HasSubstr("--batch N"));
}

TEST_F(Parsing, VersionNamesProgramAndVersion) {
    testing::internal::CaptureStdout();
    EXPECT_EQ(try_parse({"--version"}, "offramp-consumer"), std::nullopt);
    EXPECT_EQ(testing::internal::GetCapturedStdout(), "offramp-consumer " + std::string(program_version()) + "\n");
}

TEST_F(Parsing, SplitsProcessorsAtCommas) {
    const RunConfig one = parse({"--processor", "mask-png"});
    EXPECT_EQ(one.processors(), std::vector<std::string>{"mask-png"});
    const RunConfig several = parse({"--processor", "mask-png,cut-out"});
    EXPECT_EQ(several.processors(), (std::vector<std::string>{"mask-png", "cut-out"}));
    EXPECT_TRUE(several.has_processor("cut-out"));
    EXPECT_FALSE(several.has_processor("mask") || one.has_processor("cut-out"));
}

TEST_F(Parsing, AGroupHasANumberOfConsumersAndAPolicy) {
    const auto groups = parse({"--group=a=npy", "--group=b=post.py:show:2..8,drop-oldest",
                               "--group=c=checksum,optional", "--group=d=none:1..1,drop-oldest,optional"})
                            .groups();
    ASSERT_EQ(groups.size(), 4U);
    EXPECT_EQ(groups[0].policy, GroupPolicy{});
    EXPECT_EQ(groups[0].consumers, "1");
    EXPECT_EQ(groups[1].policy, (GroupPolicy{.when_full = WhenFull::DropOldest}));
    EXPECT_EQ(groups[1].consumers, "2..8");
    EXPECT_EQ(groups[1].text(), "b=post.py:show") << "the policy changes no result";
    EXPECT_EQ(groups[2].policy, GroupPolicy{.optional = true});
    EXPECT_EQ(groups[3].policy, (GroupPolicy{.optional = true, .when_full = WhenFull::DropOldest}));
    for (std::size_t i = 0; i < groups.size(); ++i) EXPECT_EQ(groups[i].policy.drops_oldest(), i > 0);
    EXPECT_FALSE((GroupPolicy{.optional = true, .when_full = WhenFull::Spill}.drops_oldest()));
}

TEST_F(Parsing, ASinkSelectsTheProcessorUnlessOneIsNamed) {
    EXPECT_EQ(parse({"--profile", "embeddings"}).processor, "embeddings-sqlite");
    for (const char* sink : {"postgres://u@h/d", "postgresql:///d?host=/run/p", "dbname=d"}) {
        EXPECT_EQ(parse({"--sink", sink, "--profile", "embeddings"}).processor, "embeddings-postgres");
        EXPECT_EQ(
            parse({"--profile", "embeddings", "--sink", sink, "--processor", "checksum,embeddings-postgres"}).processor,
            "checksum,embeddings-postgres");
    }
    EXPECT_EQ(parse({"--config", write_file("sink = 'dbname=d'\nprofile = 'embeddings'\n")}).processor,
              "embeddings-postgres");
}

TEST_F(Parsing, AModelMayBeAFile) {
    EXPECT_EQ(parse({"--model", "/some folder/My.safetensors"}).model, "/some folder/My.safetensors");
}

}  // namespace
}  // namespace offramp
