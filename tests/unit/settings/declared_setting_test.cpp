#include "common/app/settings/declared_setting.hpp"

#include <gmock/gmock.h>

#include "common/app/settings/processor_results.hpp"
#include "common/app/settings/setting_group.hpp"
#include "tests/unit/settings/parsing.hpp"

namespace offramp {
namespace {

using testing::AllOf;
using testing::HasSubstr;

DeclaredSetting declared_as(const std::string& text, std::string_view plug_in = "brightest") {
    const auto settings = read_declarations({.file = "f.cpp", .plug_in = plug_in, .text = text});
    EXPECT_EQ(settings.size(), 1U);
    return settings.empty() ? DeclaredSetting{} : settings.front();
}

// The catalogue has this build's settings; these others are described nevertheless.
Setting described(const DeclaredSetting& declared) {
    std::vector<Setting> table;
    SettingGroup group(table, declared.group);
    describe_declared(declared, group);
    return table.at(0);
}

TEST(DeclaredSettings, ReadsEachKeyAndTheNameOfThePlugIn) {
    const DeclaredSetting setting = declared_as(R"(
[[setting]]
flag = "brightest-base"
kind = "whole"
least = 2
most = 36
zero = "auto"
preset = 10
changes = "results"
help = "Numbers are written in this base"
)");
    EXPECT_EQ(setting.flag, "brightest-base");
    EXPECT_EQ(setting.preset, SettingValue(std::int64_t{10}));
    EXPECT_EQ(setting.plug_in, "brightest");
    const Setting made = described(setting);
    EXPECT_EQ(made.accepted, "2 to 36, or 0 for auto");
    EXPECT_EQ(made.group, "Consumers");
    EXPECT_EQ(made.environment_name(), "OFFRAMP_BRIGHTEST_BASE");
}

TEST(DeclaredSettings, ChangeOnlyTheirProcessorsResults) {
    const std::string text = "[[setting]]\nkind = \"on-off\"\nchanges = \"results\"\nhelp = \"h\"\nflag = ";
    const Setting own = described(declared_as(text + "\"a\"", "one"));
    const Setting shared = described(declared_as(text + "\"normalize\"", ""));  // of the processors that name it
    const struct {
        const char* processor;
        bool changes_own, changes_shared;
    } cases[] = {{"one", true, false},
                 {"x,one", true, false},
                 {"embeddings-sqlite", false, true},
                 {"one,embeddings-parquet", true, true},
                 {"x", false, false}};
    RunConfig config;
    for (const auto& [processor, changes_own, changes_shared] : cases) {
        config.processor = processor;
        EXPECT_EQ(own.effect.makes_results(config), changes_own) << processor;
        EXPECT_EQ(own.effect.makes_work(config), changes_own) << processor;
        EXPECT_EQ(shared.effect.makes_results(config), changes_shared) << processor;
        EXPECT_EQ(shared.effect.makes_work(config), changes_shared) << processor;
    }
    const Setting pace = described(
        declared_as("[[setting]]\nflag = \"a\"\nkind = \"decimal\"\npreset = 0.5\nmost = 1\nchanges = \"conduct\"\n"
                    "help = \"h\""));
    config.processor = "brightest";
    EXPECT_FALSE(pace.effect.makes_results(config));
    EXPECT_TRUE(pace.effect.is_the_runs());
    EXPECT_EQ(pace.accepted, "0 to 1");
}

TEST(DeclaredSettings, RefusesAnUnusableDeclaration) {
    const std::string whole = "[[setting]]\nflag = \"a\"\nkind = \"whole\"\nchanges = \"conduct\"\nhelp = \"h\"\n";
    const struct {
        std::string text;
        const char* expected;
    } cases[] = {
        {"flag = \"a\"", "the settings in f.cpp:1: 'flag' is above the first [[setting]] or [results]"},
        {"[[setting]]\nflag = \"a\"", ":1: a setting needs flag, kind, help and changes"},
        {"[[setting]]\nflag = \"a\"\nchanges = \"conduct\"\nhelp = \"h\"", ":1: a setting needs flag, kind, help"},
        {whole, ":1: --a needs a preset"},
        {whole + "preset = \"many\"", ":6: preset does not fit the kind: 'many'"},
        {whole + "preset = 1\nleast = \"few\"", ":7: least is 'few'"},
        {whole + "colour = 1", ":6: 'colour' is not a key of a setting"},
        {"[[setting]]\nkind = \"number\"", ":2: kind is 'number'"},
        {"[[setting]]\nchanges = \"nothing\"", ":2: changes is 'nothing'"},
        {"[[setting]]\nflag = \"a\"\nkind = \"word\"\npreset = \"x\"\nchanges = \"conduct\"\nhelp = \"h\"",
         ":1: --a needs words"},
        {"[[setting]]\nflag = \"a\"\nkind = \"decimal\"\npreset = 1\nchanges = \"conduct\"\nhelp = \"h\"",
         ":1: --a needs most"},
        {"[[setting]]\nof = \"one\"", ":2: 'of' is not a key of a setting"},
        {"[settings]", "Known: [[setting]] and [results]"},
    };
    for (const auto& one : cases) {
        try {
            read_declarations({.file = "f.cpp", .plug_in = {}, .text = one.text});
            ADD_FAILURE() << "accepted: " << one.text;
        } catch (const ConfigError& refused) {
            EXPECT_THAT(refused.what(), HasSubstr(one.expected)) << one.text;
        }
    }
}

TEST(DeclaredSettings, AValueMayHoldFactsForRunsAndConsumers) {
    const auto setting_with = [](const char* key) {
        return declared_as(std::string("[[setting]]\nflag = \"a\"\nkind = \"word\"\nwords = \"x, y\"\npreset = \"x\"\n"
                                       "changes = \"results\"\nhelp = \"h\"\n") +
                           key + " = \"y\"");
    };
    EXPECT_EQ(setting_with("reads-pictures").reads_pictures, "y");
    EXPECT_EQ(setting_with("reads-texts").reads_texts, "y");
    EXPECT_EQ(setting_with("memory-per-slab").memory_per_slab, "y");
    CatalogueValues values;
    EXPECT_FALSE(makes_memory_per_slab(values));
    values.put("strategy", "workers");
    EXPECT_TRUE(makes_memory_per_slab(values));
}

TEST(DeclaredSettings, OneSelectsTheEgress) {
    CatalogueValues values;
    EXPECT_TRUE(ChosenEgress::in(values).is_preset);
    EXPECT_EQ(ChosenEgress::in(values).name, "streams");
    values.put("strategy", "pool");
    EXPECT_FALSE(ChosenEgress::in(values).is_preset);
    EXPECT_EQ(ChosenEgress::in(values).name, "pool");
    EXPECT_EQ(ChosenEgress::in(values).flag, "strategy");
}

// --- settings of this build ---

using DeclaredSettingsOfThisBuild = Parsing;

TEST_F(DeclaredSettingsOfThisBuild, EachIsListedInItsGroupWithAValidDefault) {
    ASSERT_FALSE(DeclaredSetting::all().empty());
    const std::vector<Setting> settings = make_settings();
    for (const DeclaredSetting& declared : DeclaredSetting::all()) {
        const auto found = std::ranges::find(settings, declared.flag, &Setting::flag);
        ASSERT_NE(found, settings.end()) << declared.flag << ": there is no group " << declared.group;
        EXPECT_EQ(std::ranges::count(settings, declared.flag, &Setting::flag), 1) << declared.flag;
        RunConfig config;
        const std::string preset = to_text(declared.preset);
        EXPECT_EQ(found->set(config, preset), std::nullopt) << declared.flag << " " << preset;
        EXPECT_EQ(config, RunConfig{}) << declared.flag;
        EXPECT_EQ(config.catalogue.at(declared.flag), declared.preset) << declared.flag;
    }
}

TEST_F(DeclaredSettingsOfThisBuild, EachThatChangesResultsBelongsToAProcessor) {
    for (const DeclaredSetting& declared : DeclaredSetting::all()) {
        const auto names_it = [&](const ProcessorResults& results) {
            return std::ranges::find(results.shared_settings, declared.flag) != results.shared_settings.end();
        };
        if (declared.changes == "results") {
            EXPECT_TRUE(!declared.plug_in.empty() || std::ranges::any_of(ProcessorResults::all(), names_it))
                << declared.flag;
        }
    }
}

TEST_F(DeclaredSettingsOfThisBuild, EachRefusesValuesOfAnotherKind) {
    for (const DeclaredSetting& declared : DeclaredSetting::all()) {
        const Refusal refused = refusal({"--" + declared.flag + "=\xff"});
        EXPECT_EQ(refused.kind, ErrorKind::Usage);
        EXPECT_THAT(refused.text, AllOf(HasSubstr("--" + declared.flag), HasSubstr("Accepted: "))) << declared.flag;
    }
}

TEST_F(DeclaredSettingsOfThisBuild, ComeFromCommandLineThenEnvironmentThenFile) {
    const std::string file = write_file("image-quality = 1\nimage-format = \"webp\"\nwrite-copy = true");
    set_environment("OFFRAMP_IMAGE_QUALITY", "2");
    set_environment("OFFRAMP_IMAGE_FORMAT", "jpeg");
    const RunConfig config = parse({"--config", file, "--image-quality=3"});
    EXPECT_EQ(config.catalogue.number("image-quality"), 3);
    EXPECT_EQ(config.catalogue.text("image-format"), "jpeg");
    EXPECT_TRUE(config.catalogue.on("write-copy"));
    EXPECT_NE(config, RunConfig{});
}

}  // namespace
}  // namespace offramp
