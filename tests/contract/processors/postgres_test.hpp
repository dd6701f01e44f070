#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>

#include "common/base/error.hpp"
#include "consumer/processors/processor.hpp"
#include "consumer/sinks/postgres/postgres_database.hpp"
#include "tests/contract/processors/processor_world.hpp"

namespace offramp::test {

// A processor that writes to the PostgreSQL of the tests, and a second connection. Skipped without a server.
class PostgresTest : public ::testing::Test {
  protected:
    explicit PostgresTest(std::string processor) : processor_(std::move(processor)) {}

    void SetUp() override {
        if (const std::string missing = missing_requirement(processor_); !missing.empty()) GTEST_SKIP() << missing;
        config_ = config_for(processor_, folder_.path());
        database_ = std::make_unique<PostgresDatabase>(config_.sink);
    }

    static void process(const RunConfig& config, const SlabContents& contents) {
        make_processor(config.processor, config)->process(contents, kNoProgress, kCurrent);
    }

    // Removes everything that was written.
    void clear() {
        database_->run("DROP TABLE IF EXISTS " + config_.sink_table + ", " + config_.sink_table + "_outputs");
        for (const auto& entry : std::filesystem::recursive_directory_iterator(config_.output))
            if (entry.path().filename().string().starts_with(".offramp-made-")) std::filesystem::remove(entry.path());
    }

    struct Refusal {
        ErrorKind code = ErrorKind::None;
        std::string text = "no error";
    };
    template <class Work>
    static Refusal refusal_of(Work work) {
        try {
            work();
        } catch (const Error& error) {
            return {error.kind(), error.what()};
        }
        return {};
    }

    std::string value(const std::string& question) { return database_->rows(question).at(0).at(0).value_or("NULL"); }

    const std::string processor_;
    const ScratchFolder folder_;
    RunConfig config_;
    std::unique_ptr<PostgresDatabase> database_;
};

}  // namespace offramp::test
