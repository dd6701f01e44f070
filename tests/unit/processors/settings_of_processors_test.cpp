#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "common/app/settings/setting_group.hpp"
#include "consumer/processors/processor.hpp"

namespace offramp {
namespace {

// A misspelled processor name in the table of settings would make its settings ineffective.
TEST(SettingsOfProcessors, EachAppliesToAnExistingProcessor) {
    for (const Setting& setting : make_settings()) {
        if (setting.effect.in_processing == nullptr) continue;
        const bool of_texts = setting.flag == "vector-columns";  // has no effect with another input
        std::vector<std::string> names{"so:./custom.so"};
        for (const ProcessorEntry& entry : ProcessorEntry::all()) names.emplace_back(entry.name);
        EXPECT_TRUE(std::ranges::any_of(names, [&](const std::string& name) {
            RunConfig config;
            config.processor = name;
            config.group = "its=" + name;
            config.resize_size = 256;
            config.tile = 256;
            if (of_texts) config.source = "jsonl-text";
            config.chunk_tokens = 256;
            return setting.effect.makes_work(config);
        })) << setting.flag;
    }
}

TEST(SettingsOfProcessors, ACustomProcessorsOptionsChangeResults) {
    const auto settings = make_settings();
    const auto option = std::ranges::find(settings, "processor-option", &Setting::flag);
    ASSERT_NE(option, settings.end());
    for (const auto& [processor, counts] :
         {std::pair{"post.py:save", true}, {"npy,exec:./tool", true}, {"npy", false}}) {
        RunConfig config;
        config.processor = processor;
        EXPECT_EQ(option->effect.makes_work(config), counts) << processor;
    }
}

TEST(SettingsOfProcessors, ResultsWithPicturesDependOnTheModelsView) {
    RunConfig config;
    config.resize_size = 256;
    const auto count_for = [&](const char* processor) {
        config.processor = processor;
        std::vector<std::string> flags;
        for (const Setting& setting : make_settings())
            if (setting.effect.in_processing != nullptr && setting.effect.makes_work(config))
                flags.push_back(setting.flag);
        return flags;
    };
    using Flags = std::vector<std::string>;
    EXPECT_EQ(count_for("mask-png"), (Flags{"source", "input", "image-size", "resize-size", "processor", "scores",
                                            "threshold", "mask-palette", "mask-size"}));
    EXPECT_EQ(count_for("overlay"),
              (Flags{"source", "input", "image-size", "resize-size", "processor", "scores", "threshold"}));
    EXPECT_EQ(count_for("records"), (Flags{"source", "input", "processor", "scores", "threshold"}));
    EXPECT_EQ(count_for("embeddings-parquet"), (Flags{"processor", "normalize", "vector-dtype", "truncate-dim"}));
    config.source = "jsonl-text";  // its columns are stored with the vectors
    EXPECT_EQ(count_for("embeddings-sqlite"),
              (Flags{"source", "input", "processor", "vector-columns", "normalize", "vector-dtype", "truncate-dim"}));
    config.catalogue.put("vector-columns", "none");
    EXPECT_EQ(count_for("embeddings-sqlite"),
              (Flags{"processor", "vector-columns", "normalize", "vector-dtype", "truncate-dim"}));
    config.source = "auto";
    EXPECT_EQ(count_for("npy,http"), (Flags{"processor", "http-url", "http-body"}));
    EXPECT_EQ(count_for("none"), (Flags{"processor"}));
}

}  // namespace
}  // namespace offramp
