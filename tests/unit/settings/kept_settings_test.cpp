#include "common/app/settings/kept_settings.hpp"

#include <gmock/gmock.h>
#include <sys/stat.h>

#include <filesystem>
#include <sstream>

#include "tests/support/error_of.hpp"
#include "tests/unit/settings/parsing.hpp"

namespace offramp {
namespace {

using testing::HasSubstr;
using testing::Not;

class KeptSettings : public Parsing {
  protected:
    KeptSettings() { std::filesystem::create_directory(folder_ / "live"); }
    // The settings of a consumer with these arguments, beside a producer's `run`.
    RunConfig consumer(const RunConfig& run, const std::vector<std::string>& arguments = {}) {
        keep_settings(folder_, run);
        std::vector<const char*> argv{"offramp-consumer"};
        for (const std::string& word : arguments) argv.push_back(word.c_str());
        return parse_consumer_config(static_cast<int>(argv.size()), argv.data(), "offramp-consumer", folder_).value();
    }
    std::string text_of(const RunConfig& run) {
        keep_settings(folder_, run);
        std::ostringstream text;
        text << std::ifstream(kept_settings_path(folder_)).rdbuf();
        return text.str();
    }
    mode_t mode() const {
        struct stat facts {};
        EXPECT_EQ(::stat(kept_settings_path(folder_).c_str(), &facts), 0);
        return facts.st_mode & 07777;
    }

    static RunConfig a_run() {
        RunConfig run;
        run.run_dir = "/the/run";
        run.run_id = "one";
        run.input = "/the/pictures";
        run.source = "images";
        run.output = "/the/output";
        run.processor = "cut-out";
        run.image_size = 224;
        run.resize_size = 256;
        run.scores = "logit";
        run.threshold = 0.25;
        run.window = 5;
        run.durable = true;
        return run;
    }
};

TEST_F(KeptSettings, AConsumerWithoutSettingsUsesTheRuns) {
    const RunConfig run = a_run();
    const RunConfig taken = consumer(run);
    EXPECT_EQ(SlabWork::difference(taken, run), "");
    EXPECT_EQ(SlabWork::of(taken).hash(), SlabWork::of(run).hash());
    EXPECT_EQ(taken.resize_size, 256U);
    EXPECT_EQ(taken.window, 5U);
    EXPECT_EQ(kept_settings(folder_).processor, "cut-out");
}

TEST_F(KeptSettings, AConsumersSettingsTakePrecedence) {
    RunConfig run = a_run();
    run.log_file = "/the/log";
    run.lifeline_fd = 9;
    run.resume = run.overwrite = true;
    set_environment("OFFRAMP_THRESHOLD", "0.5");
    const RunConfig taken = consumer(run, {"--image-size", "192", "--config", write_file("png-level = 9")});
    EXPECT_EQ(taken.image_size, 192U);
    EXPECT_EQ(taken.threshold, 0.5);
    EXPECT_EQ(taken.catalogue.number("png-level"), 9);
    EXPECT_EQ(SlabWork::difference(taken, run),
              "--image-size is '192' and should be '224', --threshold is '0.5' and should be '0.25'");
    EXPECT_EQ(taken.run_dir, "");
    EXPECT_EQ(taken.log_file, "");
    EXPECT_EQ(taken.lifeline_fd, -1);
    EXPECT_FALSE(taken.resume || taken.overwrite);
}

TEST_F(KeptSettings, UsesTheRunsValuesForUnsetOnes) {
    const RunConfig run = a_run();
    const RunConfig taken =
        consumer(run, {"--processor", "auto", "--image-size", "0", "--scores=auto", "--source", "auto"});
    EXPECT_EQ(SlabWork::difference(taken, run), "");
    EXPECT_EQ(SlabWork::difference(consumer(run, {"--output", "auto"}), run).find("--output is '"), 0U)
        << "a folder of that name";
}

TEST_F(KeptSettings, AGivenProfileProvidesItsSettings) {
    RunConfig run = a_run();
    run.processor = "checksum";
    EXPECT_EQ(SlabWork::difference(consumer(run, {"--profile", "embeddings"}), run)
                  .find("--processor is 'embeddings-sqlite' and should be 'checksum'"),
              0U);
}

TEST_F(KeptSettings, PathsAreResolvedFromAnyFolder) {
    RunConfig run = a_run();
    run.output = "results";
    run.input = "../pictures";
    run.catalogue.put("http-header", "@header");
    const RunConfig taken = consumer(run);
    const std::filesystem::path here = std::filesystem::current_path();
    EXPECT_EQ(taken.output, here / "results");
    EXPECT_EQ(taken.input, here / "../pictures");
    EXPECT_EQ(taken.catalogue.text("http-header"), "@" + (here / "header").string());
    EXPECT_EQ(SlabWork::difference(taken, run), "");
}

TEST_F(KeptSettings, OmitSecretsAndDoNotRevealThem) {
    RunConfig run = a_run();
    run.processor = "http";
    run.catalogue.put("http-url", "https://me:SECRET@host/in?key=SECRET");
    run.catalogue.put("http-header", "Authorization: Bearer SECRET");
    const std::string text = text_of(run);
    EXPECT_THAT(text, Not(HasSubstr("SECRET")));
    run.catalogue.put("http-url", "https://host/in?key=OTHER");
    run.catalogue.put("http-header", "Authorization: Bearer OTHER");
    EXPECT_EQ(text_of(run), text) << "it is equal for every guess";
}

TEST_F(KeptSettings, OnlyUsersOfTheRunMayReadThem) {
    RunConfig run = a_run();
    keep_settings(folder_, run);
    EXPECT_EQ(mode(), 0600U);
    run.consumer_user = "post";
    keep_settings(folder_, run);
    EXPECT_EQ(mode(), 0640U);
}

TEST_F(KeptSettings, WithoutThemThereIsNoSuchRun) {
    EXPECT_THAT(test::error_of([&] { kept_settings(folder_); }, ErrorKind::NoSuchRun), HasSubstr("live/settings.toml"));
}

}  // namespace
}  // namespace offramp
