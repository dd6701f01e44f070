#include "common/base/log.hpp"

#include <gmock/gmock.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "common/base/error.hpp"
#include "common/json/json_text.hpp"
#include "tests/support/error_of.hpp"
#include "tests/support/scratch_folder.hpp"

namespace offramp {
namespace {

// Logs to a separate file and restores spdlog's logger.
class Log : public testing::Test {
  protected:
    ~Log() override { spdlog::set_default_logger(before_); }

    std::string file() const { return (folder_ / "log").string(); }
    std::vector<std::string> lines() const {
        spdlog::default_logger()->flush();
        std::vector<std::string> all;
        std::ifstream in(file());
        for (std::string line; std::getline(in, line);) all.push_back(line);
        return all;
    }

    test::ScratchFolder scratch_;
    std::filesystem::path folder_ = scratch_.path();

  private:
    std::shared_ptr<spdlog::logger> before_;
};

TEST_F(Log, EveryJsonLineIsOneObjectForAnyMessage) {
    start_logging("offramp-test", "info", LogFormat::Json, file());
    std::string every_byte;
    for (int byte = 0; byte < 256; ++byte) every_byte.push_back(static_cast<char>(byte));
    const struct {
        std::string message;
        std::string reads_as;
    } cases[] = {
        {"plain", "plain"},
        {"", ""},
        {R"(say "no" to C:\temp)", R"(say "no" to C:\temp)"},
        {"two\nlines\tand\x01\x1f\x7f", "two\nlines\tand\x01\x1f\x7f"},
        {"caf\u00e9 \U0001F600", "caf\u00e9 \U0001F600"},
        {"caf\xe9.jpg", "caf\ufffd.jpg"},
        {"cut \xe2\x82", "cut \ufffd\ufffd"},
        {"\xed\xa0\x80", "\ufffd\ufffd\ufffd"},
        {"%v {} %*", "%v {} %*"},
    };
    for (const auto& one : cases) spdlog::info("{}", one.message);
    spdlog::warn("{}", every_byte);

    const auto written = lines();
    ASSERT_EQ(written.size(), std::size(cases) + 1);
    for (std::size_t i = 0; i < std::size(cases); ++i) {
        const auto object = parse_json(written[i]);
        EXPECT_EQ(object.at("message"), cases[i].reads_as);
        EXPECT_EQ(object.at("level"), "info");
        EXPECT_EQ(object.at("program"), "offramp-test");
        EXPECT_EQ(object.at("pid"), ::getpid());
        EXPECT_THAT(object.at("time").get<std::string>(),
                    testing::MatchesRegex("[0-9-]+T[0-9:]+\\.[0-9]+[+-][0-9][0-9]:[0-9][0-9]"));
        EXPECT_EQ(object.size(), 5U);
    }
    EXPECT_EQ(parse_json(written.back()).at("level"), "warning");
}

TEST_F(Log, TextLinesCarryLevelProgramAndMessage) {
    start_logging("offramp-test", "debug", LogFormat::Text, file());
    spdlog::debug("seen {}", 7);
    ASSERT_EQ(lines().size(), 1U);
    EXPECT_THAT(lines()[0], testing::AllOf(testing::HasSubstr("debug"), testing::HasSubstr("offramp-test["),
                                           testing::EndsWith("seen 7")));
}

TEST_F(Log, ATextLineHasNoTerminalControlCharacters) {
    start_logging("offramp-test", "info", LogFormat::Text, file());
    spdlog::info("{}", "a\x1b[31mb\x07\u009b2J\u202egpj\xff\r ä€ %v {}");
    ASSERT_EQ(lines().size(), 1U);
    EXPECT_THAT(lines()[0], testing::EndsWith("a\\x1b[31mb\\x07\\xc2\\x9b2J\\xe2\\x80\\xaegpj\\xff\\x0d ä€ %v {}"));
}

TEST_F(Log, TheLevelHidesLessImportantMessages) {
    start_logging("offramp-test", "error", LogFormat::Text, file());
    spdlog::warn("hidden");
    spdlog::error("shown");
    EXPECT_EQ(lines().size(), 1U);
    start_logging("offramp-test", "off", LogFormat::Text, file());
    spdlog::critical("hidden");
    EXPECT_EQ(lines().size(), 1U);
}

TEST_F(Log, RefusesUnknownWordsAndListsTheKnownOnes) {
    EXPECT_THAT(test::error_of<ConfigError>([&] { start_logging("offramp-test", "loud", LogFormat::Text, ""); }),
                testing::AllOf(testing::HasSubstr("'loud'"), testing::HasSubstr("trace, debug, info")));
    EXPECT_THAT(test::error_of<ConfigError>([&] { parse_log_format("xml"); }),
                testing::AllOf(testing::HasSubstr("'xml'"), testing::HasSubstr("text, json")));
    EXPECT_EQ(parse_log_format("json"), LogFormat::Json);
    EXPECT_EQ(parse_log_format("text"), LogFormat::Text);
}

TEST_F(Log, NamesAFileThatCannotBeWritten) {
    const std::string path = (folder_ / "file" / "log").string();
    std::ofstream(folder_ / "file") << "in the way";
    EXPECT_THAT(test::error_of<ConfigError>([&] { start_logging("offramp-test", "info", LogFormat::Text, path); },
                                            ErrorKind::CannotWrite),
                testing::HasSubstr("'" + path + "'"));
}

}  // namespace
}  // namespace offramp
