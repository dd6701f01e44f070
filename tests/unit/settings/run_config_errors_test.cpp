#include <gmock/gmock.h>

#include <algorithm>

#include "common/app/settings/declared_setting.hpp"
#include "common/app/settings/processor_results.hpp"
#include "tests/unit/settings/parsing.hpp"

namespace offramp {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

struct BadValue {
    const char* flag;
    const char* value;
    const char* accepted;
};

const BadValue kBadValues[] = {
    {"run-id", "a/b", "letters, digits, '.', '_' and '-', at most 48 bytes"},
    {"run-id", "0123456789012345678901234567890123456789012345678", "at most 48 bytes"},
    {"run-dir", "\xff", "a path"},
    {"profile", "articles", "default, article, embeddings"},
    {"consumers", "65", "1 to 64, or 0 for auto"},
    {"consumers", "2..65", "as MIN..MAX"},
    {"consumers", "0..4", "is out of range"},
    {"consumers", "4..2", "larger number first"},
    {"consumers", "2..", "neither a whole number nor MIN..MAX"},
    {"log-level", "loud", "trace, debug, info, warning, error, off"},
    {"log-format", "xml", "text, json"},
    {"log-file", "a\xc3", "a path"},
    {"lifeline-fd", "-2", "-1 to 2147483647"},
    {"turn", "\xfe", "a path"},
    {"producer-restarts", "1001", "0 to 1000"},
    {"producer-wait-seconds", "-1", "0 to 86400"},
    {"source", "Images!", "lower-case letters, digits and '-'"},
    {"input", "\xc0\x80", "a path"},
    {"tokenizer", "\xc0\x80", "the path of a tokenizer.json"},
    {"id-column", "\xc0\x80", "a column's name"},
    {"text-column", "\xc0\x80", "a column's name"},
    {"columns", "title,,year", "names of columns, with a comma between"},
    {"columns", "year,title,year", "names of columns, with a comma between"},
    {"synthetic-on", "gpu", "host, device"},
    {"batches", "-1", "1 or more, or 0 for auto"},
    {"limit", "9223372036854775808", "1 or more, or 0 for all"},
    {"shard", "0/4", "I/N with I from 1 to N"},
    {"shard", "5/4", "I/N with I from 1 to N"},
    {"shard", "1", "I/N with I from 1 to N"},
    {"shard", "1/4/4", "I/N with I from 1 to N"},
    {"shard", "1/1000001", "I/N with I from 1 to N"},
    {"batch", "65537", "1 to 65536, or 0 for auto"},
    {"batch", "4.5", "1 to 65536"},
    {"batch", "0x10", "1 to 65536"},
    {"batch", " 4", "1 to 65536"},
    {"batch", "-0x", "1 to 65536"},
    {"by-length", "0", "auto, off, or a whole number of 1 to 65536"},
    {"by-length", "65537", "a whole number of 1 to 65536"},
    {"by-length", "on", "auto, off"},
    {"output-tensor", "a,,b", "names of outputs, with a comma between"},
    {"output-tensor", "a,a", "names of outputs, with a comma between"},
    {"image-size", "31", "32 to 8192, or 0 for auto"},
    {"image-size", "8193", "32 to 8192"},
    {"interpolation", "nearest", "auto, bilinear, bicubic"},
    {"resize", "224", "auto, none"},
    {"resize-size", "31", "32 to 8192, or 0 for auto"},
    {"chunk-tokens", "3", "4 to 1000000, or 0 for none"},
    {"chunk-overlap", "-1", "1 to 1000000, or 0 for none"},
    {"tile", "31", "32 to 8192, or 0 for none"},
    {"overlap", "-1", "a whole number less than half of --tile, or auto"},
    {"overlap", "99999", "a whole number less than half of --tile, or auto"},
    {"decode", "fast", "cpu, gpu, auto"},
    {"decode-workers", "1025", "1 to 1024, or 0 for auto"},
    {"prefetch", "0", "1 to 64"},
    {"prefetch", "auto", "1 to 64"},
    {"max-errors", "101%", "a number (25) or a share of all items (0% to 100%)"},
    {"max-errors", "-1%", "0% to 100%"},
    {"max-errors", "nan%", "0% to 100%"},
    {"max-errors", "many", "0% to 100%"},
    {"model", "deep/lab", "lower-case letters"},
    {"model", "weights.pth", ".safetensors"},
    {"weights", "\xed\xa0\x80", ".safetensors"},
    {"seed", "-1", "0 or more"},
    {"precision", "fp16", "auto, fp32, tf32, bf16"},
    {"memory-format", "nhwc", "auto, contiguous, channels-last"},
    {"transform", "softmax", "none, cast, class-map, low-res"},
    {"cuda-graphs", "on", "auto, off"},
    {"output-dtype", "fp64", "auto, fp32, fp16, bf16"},
    {"when-full", "discard", "wait, drop, drop-oldest, spill"},
    {"copy-outputs", "96x", "96x256x256"},
    {"strategy", "stream", "sequential, workers, pool, async, streams"},
    {"max-delay-seconds", "-1", "0 to 60"},
    {"status-seconds", "0", "0.01 to 3600"},
    {"copy-bytes", "64XB", "KiB, MiB and GiB"},
    {"slab-bytes", "1KiB", "65536 to 68719476736, or 0 for auto"},
    {"copy-bytes", "9000000000GiB", "1 to 1099511627776, or 0 for auto"},
    {"copy-bytes", "1025GiB", "1 to 1099511627776"},
    {"random-weights", "yes", "true, false, 1, 0"},
    {"deterministic", "yes", "true, false, 1, 0"},
    {"device", "cuda:", "auto, cpu, cuda, or cuda:N"},
    {"device", "cuda:01", "cuda:N"},
    {"device", "cuda:1000", "0 to 999"},
    {"device", "tpu", "cuda:N"},
    {"slabs", "1", "2 to 4096, or 0 for auto"},
    {"slabs", "4097", "2 to 4096"},
    {"samples-per-slab", "65537", "1 to 65536, or 0 for auto"},
    {"batches-per-slab", "4097", "1 to 4096, or 0 for auto"},
    {"allow-unpinned", "2", "true, false, 1, 0"},
    {"confidence", "2", "true, false, 1, 0"},
    {"drain-warmup", "2", "true, false, 1, 0"},
    {"profile-batches", "-1", "0 or more"},
    {"trace-dir", "\xff", "a path"},
    {"spill-dir", "\xff", "a path"},
    {"warmup-batches", "-1", "0 or more"},
    {"measure-limits", "x", "0 or more"},
    {"visibility-timeout", "0", "0.1 to 86400"},
    {"visibility-timeout", "nan", "0.1 to 86400"},
    {"visibility-timeout", "inf", "0.1 to 86400"},
    {"visibility-timeout", "30s", "0.1 to 86400"},
    {"kill-stalled", "2", "true, false, 1, 0"},
    {"max-failures", "0", "1 to 1000"},
    {"window", "257", "1 to 256, or 0 for auto"},
    {"consumer-user", "a:b", "a user's name"},
    {"processor", "MaskPng", "a built-in name (npy, mask-png, ...; --list)"},
    {"processor", "mask-png,", "several with commas"},
    {"processor", "mask-png,,cut-out", "several with commas"},
    {"group", "masks", "NAME=PROCESSOR"},
    {"group", "Masks=npy", "NAME=PROCESSOR"},
    {"group", "masks=", "NAME=PROCESSOR"},
    {"group", "masks=npy:0", "1 to 64"},
    {"group", "masks=auto", "NAME=PROCESSOR"},
    {"group", "masks=npy:3..2", "1 to 64"},
    {"group", "masks=npy,always", "[,optional][,drop-oldest|spill]"},
    {"group", "masks=npy,optional,optional", "NAME=PROCESSOR"},
    {"output", "\xfe", "a path"},
    {"samples-folder", "\xfe", "a path"},
    {"input-list", "\xfe", "the path of a list that a job made"},
    {"input-index", "\xfe", "the path of an index that a job made"},
    {"sink", "a\xff", "postgres://"},
    {"sink-table", "My Table", "lower-case letters"},
    {"index", "ivf", "none, hnsw"},
    {"write-path", "a\xff", "a path"},
    {"write-copy", "on", "true, false, 1, 0"},
    {"png-level", "10", "0 to 9"},
    {"mask-size", "picture", "image, model"},
    {"scores", "softmax", "auto, probability, logit"},
    {"threshold", "1.5", "0 to 1"},
    {"image-format", "bmp", "png, jpeg, webp"},
    {"image-quality", "0", "1 to 100"},
    {"encode", "cuda", "cpu, gpu, auto"},
    {"image-range", "0:2", "0:1, -1:1, 0:255"},
    {"picture-size", "original", "image, model"},
    {"mask-palette", "gray", "voc, none"},
    {"normalize", "l2", "true, false, 1, 0"},
    {"vector-dtype", "int8", "fp32, fp16"},
    {"truncate-dim", "1000001", "1 to 1000000, or 0 for all"},
    {"http-url", "ftp://host/in", "http:// or https://"},
    {"http-header", "A: \xff", "@FILE"},
    {"http-ca-file", "a\xff", "a path"},
    {"http-body", "xml", "json, npy"},
    {"http-timeout-seconds", "0", "1 to 3600"},
    {"sink-patience-seconds", "0", "1 to 86400"},
    {"http-patience-seconds", "3601", "1 to 3600"},
    {"durable", "yes", "true, false, 1, 0"},
    {"resume", "2", "true, false, 1, 0"},
    {"overwrite", "no", "true, false, 1, 0"},
    {"random-weights", "no", "true, false, 1, 0"},
};

TEST_F(Parsing, RefusesBadValuesWithFlagValueAndAcceptedOnes) {
    for (const BadValue& bad : kBadValues) {
        const std::string flag = std::string("--") + bad.flag;
        const Refusal refused = refusal({flag + "=" + bad.value});
        EXPECT_EQ(refused.kind, ErrorKind::Usage) << flag << " " << bad.value;
        EXPECT_THAT(refused.text,
                    AllOf(HasSubstr(flag), HasSubstr("'" + std::string(bad.value) + "'"), HasSubstr(bad.accepted)));
    }
}

// Weights without a network get the same remedy as with --weights (safetensors_file.cpp).
TEST_F(Parsing, RecognisesAWeightsOnlyModel) {
    for (const char* file : {"folder/x.pth", "last.ckpt", "pytorch_model.bin"}) {
        const Refusal refused = refusal({std::string("--model=") + file});
        EXPECT_EQ(refused.kind, ErrorKind::Usage);
        EXPECT_THAT(refused.text,
                    AllOf(HasSubstr("without a network"),
                          HasSubstr("./launch/offramp export NETWORK --weights " + std::string(file) + " "),
                          HasSubstr("torch.load('" + std::string(file) + "'"),
                          HasSubstr("--weights weights.safetensors"), Not(HasSubstr("valid name"))));
    }
    EXPECT_THAT(refusal({"--model=x.pb"}).text, AllOf(HasSubstr("is not a valid name"), Not(HasSubstr("network"))));
    EXPECT_THAT(refusal({"--model=x.onnx"}).text,
                AllOf(HasSubstr("'x.onnx' is ONNX"), HasSubstr("./launch/offramp export FILE.py:FUNCTION"),
                      HasSubstr("onnxruntime"), HasSubstr("offramp.Egress"), Not(HasSubstr("valid name"))));
}

TEST_F(Parsing, NamesTheVariableOfABadValue) {
    for (const BadValue& bad : kBadValues) {
        std::string variable = "OFFRAMP_" + std::string(bad.flag);
        for (char& c : variable) c = c == '-' ? '_' : static_cast<char>(std::toupper(c));
        set_environment(variable, bad.value);
        const Refusal refused = refusal({});
        ::unsetenv(variable.c_str());
        EXPECT_EQ(refused.kind, ErrorKind::Usage) << variable << " " << bad.value;
        EXPECT_THAT(refused.text, AllOf(HasSubstr(variable), HasSubstr("--" + std::string(bad.flag)),
                                        HasSubstr("'" + std::string(bad.value) + "'"), HasSubstr(bad.accepted)));
    }
}

TEST_F(Parsing, EverySettingHasABadValueInThisTest) {
    for (const Setting& setting : make_settings()) {
        // Declared settings: DeclaredSettings.EachRefusesValuesOfAnotherKind.
        if (setting.command_line_only || std::ranges::find(DeclaredSetting::all(), setting.flag,
                                                           &DeclaredSetting::flag) != DeclaredSetting::all().end())
            continue;
        const bool covered = std::any_of(std::begin(kBadValues), std::end(kBadValues),
                                         [&](const BadValue& bad) { return setting.flag == bad.flag; });
        EXPECT_TRUE(covered) << setting.flag;
    }
}

TEST_F(Parsing, EveryPathRefusesAUrl) {
    int paths = 0;
    for (const Setting& setting : make_settings()) {
        const bool is_path =
            setting.value_name == "FILE" || setting.value_name == "FOLDER" || setting.value_name == "PATH";
        if (!is_path || !setting.anywhere) continue;
        ++paths;
        for (const char* const url : {"s3://bucket/x.safetensors", "https://host/x", "gs://b", "abfs+v2://c/d"}) {
            const Refusal refused = refusal({"--" + setting.flag + "=" + url});
            EXPECT_EQ(refused.kind, ErrorKind::Usage) << setting.flag;
            const std::string scheme = std::string(url).substr(0, std::string_view(url).find(':'));
            EXPECT_THAT(refused.text,
                        AllOf(HasSubstr(url), HasSubstr(scheme + ":// is not supported"), HasSubstr("mount it")));
        }
    }
    EXPECT_GE(paths, 8);
    EXPECT_THAT(refusal({"--output=s3:/bucket/x"}).text,
                HasSubstr("has one slash, and a URL has two: s3://BUCKET/PREFIX"));
    EXPECT_NO_THROW(parse({"--output", "a:b/c://d", "--run-dir", "://x"})) << "a name with a colon is no URL";
}

TEST_F(Parsing, RefusesUnknownFlagsAndNamesTheNearest) {
    const Refusal refused = refusal({"--image-sise", "512"});
    EXPECT_EQ(refused.kind, ErrorKind::Usage);
    EXPECT_THAT(refused.text, AllOf(HasSubstr("unknown flag --image-sise"), HasSubstr("Did you mean --image-size?")));
    EXPECT_THAT(refusal({"--bacth=4"}).text, HasSubstr("Did you mean --batch?"));
    EXPECT_THAT(refusal({"-batch", "4"}).text, HasSubstr("Did you mean --batch?"));
    EXPECT_THAT(refusal({"--xyzzyplugh"}).text,
                AllOf(HasSubstr("--xyzzyplugh"), testing::Not(HasSubstr("Did you mean"))));
}

TEST_F(Parsing, RefusesWordsWithoutAFlagOrValue) {
    EXPECT_THAT(refusal({"images"}).text, HasSubstr("'images' is neither a flag nor a command"));
    const Refusal refused = refusal({"--batch"});
    EXPECT_EQ(refused.kind, ErrorKind::Usage);
    EXPECT_THAT(refused.text, HasSubstr("--batch"));
}

TEST_F(Parsing, ErrorsOfTheFileNameFileLineAndKey) {
    const struct {
        const char* text;
        const char* expected;
    } cases[] = {
        {"# fine\nbatch = 4\nimage_size = 512", ":3: image_size is an unknown key. Did you mean image-size?"},
        {"batch = '4'",
         ":1: batch (--batch) is a string ('4'), expected an integer. Accepted: 1 to 65536, or 0 for auto"},
        {"batch = 4.0", ":1: batch (--batch) is a float ('4.0'), expected an integer"},
        {"batch = true", ":1: batch (--batch) is a boolean ('true'), expected an integer"},
        {"resume = 1", ":1: resume (--resume) is an integer ('1'), expected a boolean"},
        {"model = 1", ":1: model (--model) is an integer ('1'), expected a string"},
        {"max-errors = 0.5", ":1: max-errors (--max-errors) is a float ('0.5'), expected a string"},
        {"\n\nbatch = 65537", ":3: batch (--batch) '65537' is out of range. Accepted: 1 to 65536"},
        {"print-config = true", ":1: print-config is not a setting of a file. Give --print-config on the command line"},
        {"config = 'other.toml'", ":1: config is an unknown key"},
        {"[run]\nbatch = 4", ":1: 'run' is an unknown table"},
        {"profile = 'none'", ":1: profile (--profile) 'none' is unknown. Accepted: default, article, embeddings"},
    };
    for (const auto& one : cases) {
        const std::string path = write_file(one.text);
        const Refusal refused = refusal({"--config", path});
        EXPECT_EQ(refused.kind, ErrorKind::Config) << one.text;
        EXPECT_THAT(refused.text, HasSubstr(path + one.expected));
    }
}

TEST_F(Parsing, RefusesAnUnreadableFile) {
    for (const std::string& path : {(folder_ / "absent.toml").string(), folder_.string()}) {
        const Refusal refused = refusal({"--config", path});
        EXPECT_EQ(refused.kind, ErrorKind::Config);
        EXPECT_THAT(refused.text, AllOf(HasSubstr("'" + path + "' cannot be read"), HasSubstr("--config")));
    }
    EXPECT_EQ(parse({"--config", write_file("")}), RunConfig{});
}

TEST_F(Parsing, AcceptsActionsOnlyOnTheCommandLine) {
    set_environment("OFFRAMP_LIST", "1");
    EXPECT_THAT(refusal({}).text,
                AllOf(HasSubstr("OFFRAMP_LIST has no effect"), HasSubstr("--list on the command line")));
}

TEST_F(Parsing, RefusesAnUnknownVariableLikeAFlag) {
    set_environment("OFFRAMP_BATHC", "a secret");
    const Refusal refused = refusal({"--batch", "4"});
    EXPECT_EQ(refused.kind, ErrorKind::Usage);
    EXPECT_THAT(refused.text, AllOf(HasSubstr("OFFRAMP_BATHC is not a setting"),
                                    HasSubstr("Did you mean OFFRAMP_BATCH?"), Not(HasSubstr("secret"))));
    EXPECT_EQ(refusal({}, "offramp-consumer").kind, ErrorKind::Usage);
    set_environment("OFFRAMP_BATHC", "");
    EXPECT_EQ(parse().batch, 0U) << "an empty variable is ignored";
}

TEST_F(Parsing, IgnoresVariablesOfTheLauncherAndOfTests) {
    for (const char* name : {"OFFRAMP_BIN_DIR", "OFFRAMP_BUILD_DIR", "OFFRAMP_LIBRARY", "OFFRAMP_SHARD_INDEX",
                             "OFFRAMP_SKIP_PACKAGES", "OFFRAMP_PYTHON", "OFFRAMP_TORCH_DIR", "OFFRAMP_CUDA_DIR",
                             "OFFRAMP_TOKENIZER_PYTHON", "OFFRAMP_REVISION", "OFFRAMP_UPLOADER", "OFFRAMP_WORK",
                             "OFFRAMP_TEST_ANYTHING", "OFFRAMP_BENCH_ENCODER", "OFFRAMP_CRASH_HISTORIES"})
        set_environment(name, "x");
    EXPECT_EQ(parse(), RunConfig{});
}

TEST_F(Parsing, SuggestsTheIntendedWord) {
    EXPECT_THAT(refusal({"--profile", "embedings"}).text,
                HasSubstr("Did you mean embeddings? Accepted: default, article, embeddings"));
    EXPECT_THAT(refusal({"--config", write_file("strategy = 'stream'")}).text, HasSubstr("Did you mean streams?"));
    EXPECT_THAT(refusal({"--profile", "zzzzzzzzz"}).text, Not(HasSubstr("Did you mean")));
}

TEST_F(Parsing, RefusesContradictingSettings) {
    const Refusal refused = refusal({"--model", "copy", "--transform", "class-map"});
    EXPECT_EQ(refused.kind, ErrorKind::Usage);
    EXPECT_THAT(refused.text, AllOf(HasSubstr("--transform 'class-map'"), HasSubstr("--model copy")));
    EXPECT_THAT(refusal({"--model=copy", "--weights=w"}).text,
                AllOf(HasSubstr("--weights 'w'"), HasSubstr("--model copy")));
}

TEST_F(Parsing, AcceptsATransformsSettingsOnlyWithIt) {
    EXPECT_THAT(refusal({"--confidence"}).text, AllOf(HasSubstr("--confidence"), HasSubstr("--transform 'none'")));
    EXPECT_THAT(refusal({"--transform=low-res", "--confidence"}).text, HasSubstr("--transform class-map"));
    for (const char* transform : {"--transform=none", "--transform=class-map"})
        EXPECT_THAT(refusal({transform, "--output-dtype=fp16"}).text,
                    AllOf(HasSubstr("--output-dtype 'fp16'"), HasSubstr("cast or low-res")));
    EXPECT_THAT(refusal({"--transform=cast", "--output-dtype=fp32"}).text, HasSubstr("auto, fp16, bf16"));
    EXPECT_EQ(refusal({"--config", write_file("confidence = true\n")}).kind, ErrorKind::Config);

    EXPECT_TRUE(parse({"--transform=class-map", "--confidence"}).confidence);
    EXPECT_EQ(parse({"--transform=low-res", "--output-dtype=fp32"}).output_dtype, "fp32");
    EXPECT_EQ(parse({"--transform=cast", "--output-dtype=bf16"}).output_dtype, "bf16");
}

TEST_F(Parsing, AcceptsWhenFullOnlyWithAnEgressThatSupportsIt) {
    EXPECT_THAT(refusal({"--spill-dir=/disk"}).text,
                AllOf(HasSubstr("--spill-dir '/disk'"), HasSubstr("--when-full spill")));
    EXPECT_EQ(parse({"--when-full=spill", "--spill-dir=/disk"}).spill_dir, "/disk");
    EXPECT_EQ(parse({"--group=a=npy,spill", "--spill-dir=/disk"}).spill_dir, "/disk");
    EXPECT_EQ(parse({"--when-full=drop"}).when_full, "drop");
}

TEST_F(Parsing, RefusesAnotherShardsSampleFolder) {
    for (const char* output : {"--output=/other", "--output=/all/more", "--output=/other/.offramp-shards/3"})
        EXPECT_THAT(refusal({"--samples-folder=/all", output}).text,
                    AllOf(HasSubstr("--samples-folder '/all'"), HasSubstr("not a shard's folder in it")));
    EXPECT_THAT(refusal({"--samples-folder=/all"}).text, HasSubstr("does not go with --output ''"));
    EXPECT_EQ(parse({"--samples-folder=/all", "--output=/all/.offramp-shards/3"}).samples_folder, "/all");
}

TEST_F(Parsing, ValidatesTheSinkAndNeverShowsIt) {
    for (const Refusal& refused :
         {refusal({"--sink=mysql://u:secret@h/d"}), refusal({"--sink=postgres://u:secret@h/d", "--processor=checksum"}),
          refusal({"--sink=password=secret", "--profile=embeddings", "--processor=embeddings-sqlite"})}) {
        EXPECT_EQ(refused.kind, ErrorKind::Usage);
        EXPECT_THAT(refused.text, AllOf(HasSubstr("--sink"), ::testing::Not(HasSubstr("secret"))));
    }
}

TEST_F(Parsing, ANamedTableBelongsToOneProcessor) {
    const std::vector<std::string> flags{"--sink=dbname=d", "--processor=embeddings-postgres,npy,records-postgres"};
    const RunConfig both = parse(flags);
    EXPECT_EQ(tables_of(both), (std::vector<std::string>{"embeddings", "records"}));
    const Refusal refused = refusal({flags[0], flags[1], "--sink-table=own"});
    EXPECT_EQ(refused.kind, ErrorKind::Usage);
    EXPECT_THAT(refused.text, AllOf(HasSubstr("--sink-table 'own' names one table"), HasSubstr("search_path")));
    EXPECT_EQ(tables_of(parse({"--sink=dbname=d", "--processor=npy,records-postgres", "--sink-table=own"})),
              std::vector<std::string>{"own"});
}

TEST_F(Parsing, ReportsUnreadableWeightsAsMissingInput) {
    const std::string path = (folder_ / "absent.safetensors").string();
    const Refusal refused = refusal({"--weights", path});
    EXPECT_EQ(refused.kind, ErrorKind::NoInput);
    EXPECT_THAT(refused.text, AllOf(HasSubstr("--weights '" + path + "'"), HasSubstr("No such file")));
    EXPECT_EQ(try_parse({"--weights", path}, "offramp-consumer").value().weights, path);
}

}  // namespace
}  // namespace offramp
