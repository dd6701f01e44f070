#include "common/app/settings/processor_results.hpp"

#include <gmock/gmock.h>

#include "common/app/settings/declared_setting.hpp"
#include "common/app/settings/sections.hpp"
#include "common/base/error.hpp"

namespace offramp {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

CatalogueSource results_in(std::string_view text, std::string_view plug_in = "brightest") {
    return {.file = "f.cpp", .plug_in = plug_in, .text = text};
}

TEST(DeclaredResults, HaveEachKeyAndTheNameOfThePlugIn) {
    const auto results = read_results(results_in(R"(
[[setting]]
flag = "a"
kind = "on-off"
changes = "results"
help = "h"

[results]
reads = "pictures"
looks-at = "items"
endings = ".a, .b.gz,.c"
names = "key"
whole = "all.tsv"
table = "brightest"
kept-by = "key"
chosen-for = "vectors"
settings = "mask-size, normalize"
)"));
    ASSERT_TRUE(results);
    EXPECT_EQ(results->processor, "brightest");
    EXPECT_EQ(results->reads, Reads::Pictures);
    EXPECT_EQ(results->looks_at, LooksAt::Items);
    EXPECT_THAT(results->endings, ElementsAre(".a", ".b.gz", ".c"));
    EXPECT_EQ(results->names, FileNames::Key);
    EXPECT_EQ(results->whole, "all.tsv");
    EXPECT_EQ(results->table, "brightest");
    EXPECT_TRUE(results->kept_by_key);
    EXPECT_TRUE(results->is_for_vectors);
    EXPECT_THAT(results->shared_settings, ElementsAre("mask-size", "normalize"));
}

TEST(DeclaredResults, NameTheirProcessorOutsideAPlugIn) {
    const auto results = read_results(results_in("[results]\nof = \"auto\"\nendings = \".a, .b\"", ""));
    ASSERT_TRUE(results);
    EXPECT_EQ(results->processor, "auto");
    EXPECT_EQ(results->names, FileNames::Shortest);
}

TEST(DeclaredResults, AreUnknownForAFileWithoutADeclaration) {
    const std::string setting = "[[setting]]\nflag = \"a\"\nkind = \"on-off\"\nchanges = \"results\"\nhelp = \"h\"\n";
    EXPECT_FALSE(read_results(results_in(setting)));
    EXPECT_EQ(read_declarations(results_in(setting + "[results]")).size(), 1U);
    EXPECT_TRUE(read_results(results_in("[results]"))) << "only those in its checkpoint";
}

TEST(DeclaredResults, AreRefusedWhereUnusable) {
    const struct {
        std::string text;
        const char* expected;
    } cases[] = {
        {"whole = \"a\"\n[results]", "the settings in f.cpp:1: 'whole' is above the first [[setting]] or [results]"},
        {"[results]\ncolour = \"red\"", ":2: 'colour' is not a key of results"},
        {"[results]\nreads = \"colours\"", ":2: reads is 'colours'"},
        {"[results]\n\nlooks-at = \"stars\"", ":3: looks-at is 'stars'"},
        {"[results]\nendings = \"png\"", ":2: endings is 'png'"},
        {"[results]\nendings = \".png, \"", ":2: endings is '.png, '"},
        {"[results]\nendings = \".png .jpg\"", ":2: endings is '.png .jpg'"},
        {"[results]\nendings = \".png, .\"", ":2: endings is '.png, .'"},
        {"[results]\nendings = \".a/b\"", ":2: endings is '.a/b'"},
        {"[results]\nendings = \"\"", ":2: endings is ''"},
        {"[results]\nendings = [\".png\"]", ":2: 'endings' is an array"},
        {"[results]\nendings = 1", ":2: endings is '1'"},
        {"[results]\nwhole = \"a/b\"", ":2: whole is 'a/b'"},
        {"[results]\nwhole = true", ":2: whole is 'true'"},
        {"[results]\ntable = \"\"", ":2: table is ''"},
        {"[results]\nkept-by = \"item\"", ":2: kept-by is 'item'"},
        {"[results]\nchosen-for = \"masks\"", ":2: chosen-for is 'masks'"},
        {"[results]\nsettings = \"normalize, colour\"", ":2: settings is 'normalize, colour'"},
        {"[results]\nendings = \".a\"\nnames = \"item\"", ":3: names is 'item'"},
        {"[results]\nnames = \"key\"", ":2: names needs endings"},
        {"[results]\n[results]", ":2: this is not TOML"},
        {"[[results]]", "Known: [[setting]] and [results]"},
        {"[results.more]", ":1: 'more' is a table"},
    };
    for (const auto& one : cases) {
        try {
            (void)read_results(results_in(one.text));
            ADD_FAILURE() << "accepted: " << one.text;
        } catch (const ConfigError& refused) {
            EXPECT_THAT(refused.what(), HasSubstr(one.expected)) << one.text;
        }
    }
    EXPECT_THROW((void)read_results(results_in("[results]\nwhole = \"a\"", "")), ConfigError) << "no processor";
}

TEST(DeclaredResults, OfThisBuildNameTheTablesThatExist) {
    ResultSettings run;
    run.processor = "embeddings-postgres,npy,custom,records-postgres";
    EXPECT_THAT(tables_of(run), ElementsAre("embeddings", "records"));
    run.sink_table = "own";
    EXPECT_THAT(tables_of(run), ElementsAre("own", "own"));
    run.processor = "embeddings-sqlite";
    EXPECT_THAT(tables_of(run), testing::IsEmpty());
    EXPECT_EQ(processor_for_vectors(run), "embeddings-sqlite");
    run.sink = "postgres://me@host/vectors";
    EXPECT_EQ(processor_for_vectors(run), "embeddings-postgres");
}

TEST(DeclaredResults, OfThisBuildExistForEachProcessorAndForAuto) {
    for (const char* const name : {"auto", "mask-png", "records-postgres", "write", "none"})
        EXPECT_NE(ProcessorResults::of(name), nullptr) << name;
    EXPECT_EQ(ProcessorResults::of("custom"), nullptr);
    EXPECT_TRUE(may_end_result("custom", "a"));
    std::vector<std::string> endings(endings_of_items().begin(), endings_of_items().end());
    EXPECT_THAT(endings,
                testing::UnorderedElementsAre(".png", ".jpg", ".webp", ".npy", ".bin", ".safetensors", ".jpeg"));
}

}  // namespace
}  // namespace offramp
