#include "producer/broker/dead_letter_writer.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "common/dead_letters/payload_file.hpp"
#include "common/json/json_text.hpp"
#include "tests/unit/dead_letters/filled_slab.hpp"

namespace offramp {
namespace {

using nlohmann::json;
using testing::HasSubstr;

class Writer : public testing::Test {
  protected:
    ~Writer() override { std::filesystem::remove_all(root_); }

    void SetUp() override { std::filesystem::create_directories(root_); }

    DeadLetterWriter::Settings settings() {
        return {.folder = folder_,
                .run_id = "made-up",
                .run_nonce = FilledSlab::kNonce,
                .bytes_of =
                    [this](std::uint32_t) {
                        return DeadLetterWriter::SlabBytes{slab_.memory, nullptr};
                    },
                .on_outcome = [this] { ++told_; }};
    }
    DeadLetterJob job() const {
        return {.ticket = slab_.ticket,
                .first_batch = 7,
                .reason = "it took down 3 consumers",
                .deaths = 3,
                .deliveries = {{.attempt = 1,
                                .pid = 4711,
                                .session = 2,
                                .delivered_at_ns = 1'000'000'000,
                                .ended_at_ns = 3'500'000'000,
                                .end = "died",
                                .counted = true}}};
    }
    std::vector<DeadLetterOutcome> outcomes_of(DeadLetterWriter& writer, DeadLetterJob what) {
        writer.submit(std::move(what));
        writer.wait_until_idle();
        return writer.take_outcomes();
    }
    static json read(const std::string& path) {
        std::ostringstream text;
        text << std::ifstream(path).rdbuf();
        return parse_json(text.str());
    }

    const std::string root_ = testing::TempDir() + "dead_letter_test." + std::to_string(::getpid());
    const std::string folder_ = root_ + "/dead-letters";
    const FilledSlab slab_;
    std::atomic<int> told_{0};
};

TEST_F(Writer, LeavesThePayloadAndItsIncidentReport) {
    {
        DeadLetterWriter writer(settings());
        const auto outcomes = outcomes_of(writer, job());
        ASSERT_EQ(outcomes.size(), 1U);
        EXPECT_EQ(outcomes[0].slab, slab_.ticket.slab);
        EXPECT_EQ(outcomes[0].generation, slab_.ticket.generation);
        EXPECT_EQ(outcomes[0].payload, folder_ + "/batch-7-row-2.safetensors");
        EXPECT_EQ(outcomes[0].error, "");
    }
    EXPECT_EQ(told_, 1);
    const PayloadFile payload(folder_ + "/batch-7-row-2.safetensors");
    EXPECT_TRUE(std::ranges::equal(payload.slab().tensors[1].bytes, slab_.contents().tensors[1].bytes));
    const json report = read(folder_ + "/batch-7-row-2.json");
    EXPECT_EQ(report["run_id"], "made-up");
    EXPECT_EQ(report["payload"], "batch-7-row-2.safetensors");
    EXPECT_EQ(report["samples"][0]["key"], "photos/cat");
    EXPECT_EQ(report["payload_bytes"], 2 * 3 + 2 * 48 + 2 * 16) << "without the room between tensors";
    EXPECT_EQ(report["deliveries"][0]["pid"], 4711);
    EXPECT_EQ(report["deliveries"][0]["seconds"], 2.5);
    EXPECT_EQ(report["deliveries"][0]["counted"], true);
    EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_), {}), 2) << "no temporary file is left";
}

TEST_F(Writer, TheSameRowsAgainReplaceTheFiles) {
    DeadLetterWriter writer(settings());
    outcomes_of(writer, job());
    EXPECT_EQ(outcomes_of(writer, job())[0].error, "");
    EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_), {}), 2);
}

TEST_F(Writer, KeepsTheIncidentReportOfAnUnwritablePayload) {
    std::filesystem::create_directories(folder_);
    std::filesystem::create_directory(folder_ + "/batch-7-row-2.safetensors.new");
    DeadLetterWriter writer(settings());
    const auto outcomes = outcomes_of(writer, job());
    ASSERT_EQ(outcomes.size(), 1U);
    EXPECT_EQ(outcomes[0].payload, "");
    EXPECT_THAT(outcomes[0].error, HasSubstr("File exists"));
    EXPECT_THAT(outcomes[0].error, HasSubstr("batch-7-row-2.safetensors"));
    EXPECT_FALSE(std::filesystem::exists(folder_ + "/batch-7-row-2.safetensors"));
    const json report = read(folder_ + "/batch-7-row-2.json");
    EXPECT_TRUE(report["payload"].is_null());
    EXPECT_THAT(report["error"].get<std::string>(), HasSubstr("File exists"));
    EXPECT_EQ(report["samples"][0]["key"], "photos/cat") << "the missing samples are still listed";
}

TEST_F(Writer, ReportsThatItsFolderCannotBeMade) {
    std::ofstream(folder_) << "a file in the way";
    DeadLetterWriter writer(settings());
    const auto outcomes = outcomes_of(writer, job());
    ASSERT_EQ(outcomes.size(), 1U);
    EXPECT_EQ(outcomes[0].payload, "");
    EXPECT_THAT(outcomes[0].error, HasSubstr(folder_));
}

TEST_F(Writer, ReportsTheBrokenFieldOfASlabHeader) {
    auto broken = job();
    broken.ticket.generation += 1;
    DeadLetterWriter writer(settings());
    const auto outcomes = outcomes_of(writer, broken);
    EXPECT_THAT(outcomes.at(0).error, HasSubstr("generation"));
    EXPECT_EQ(read(folder_ + "/batch-7-row-0.json")["deaths"], 3);
}

}  // namespace
}  // namespace offramp
