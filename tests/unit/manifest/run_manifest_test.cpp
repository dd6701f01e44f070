#include "producer/run/run_manifest.hpp"

#include <gtest/gtest.h>

#include "common/base/error.hpp"
#include "tests/contract/processors/processor_world.hpp"
#include "tests/unit/prefetch/prefetch_world.hpp"

namespace offramp {
namespace {

using Former = RunManifest::Former;

class RunManifestTest : public ::testing::Test {
  protected:
    RunConfig config_of(const std::string& run_id) const {
        RunConfig config;
        config.source = "synthetic";
        config.model = "copy";
        config.processor = "checksum";
        config.batch = 4;
        config.run_id = run_id;
        config.output = folder.path() + "/made/for/it";
        return config;
    }
    RunManifest run(const std::string& run_id, Former former) {
        return {config_of(run_id), source, former, [](const std::exception_ptr&) { ADD_FAILURE(); }};
    }
    static void complete(RunManifest& manifest, ItemRange items) {
        PublishedSlab slab;
        slab.items = {items};
        manifest.completed(slab);
    }

    test::ScratchFolder folder;
    FakeSource source{20, RowKind::Nothing};
};

TEST_F(RunManifestTest, ARunContinuesWhatOthersDid) {
    {
        RunManifest first = run("a", Former::Continue);   // nothing is there yet
        EXPECT_TRUE(first.done().empty());
        complete(first, {0, 4});
    }
    {
        RunManifest second = run("b", Former::Continue);
        EXPECT_EQ(second.items_before(), 4U);
        complete(second, {8, 12});
    }
    const RunManifest third = run("b", Former::Continue);
    EXPECT_EQ(third.done().list(), (std::vector<ItemRange>{{0, 4}, {8, 12}}));
    EXPECT_EQ(third.items_before(), 8U);
}

TEST_F(RunManifestTest, AProducerThatTakesOverKnowsWhatTheRunBeganWith) {
    {
        RunManifest first = run("a", Former::StartOver);
        complete(first, {0, 4});
    }
    {
        RunManifest second = run("b", Former::Continue);
        complete(second, {8, 12});
    }
    {
        RunManifest taken_over = run("b", Former::TakeOver);
        EXPECT_EQ(taken_over.done().items(), 8U);
        EXPECT_EQ(taken_over.items_before(), 4U);
        complete(taken_over, {12, 16});
    }
    EXPECT_EQ(run("b", Former::TakeOver).items_before(), 4U);
}

TEST_F(RunManifestTest, WithoutContinuingARunStartsOver) {
    {
        RunManifest first = run("a", Former::StartOver);
        complete(first, {0, 20});
    }
    EXPECT_TRUE(run("b", Former::StartOver).done().empty());
    EXPECT_TRUE(run("c", Former::Continue).done().empty());
}

TEST_F(RunManifestTest, OtherNamesOfItemsAreOtherWork) {
    { const RunManifest first = run("a", Former::StartOver); }
    class Renamed final : public BatchSource {
      public:
        std::string description() const override { return "renamed"; }
        std::uint64_t items() const override { return 20; }
        RowKind row_kind() const override { return RowKind::Nothing; }
        std::string_view key(std::uint64_t) const override { return "another"; }
        std::size_t max_key_bytes() const override { return 24; }
        std::string origin(std::uint64_t) const override { return ""; }
        void load(std::uint64_t, std::span<std::byte>) override {}
    } renamed;
    try {
        const RunManifest second(config_of("b"), renamed, Former::Continue, [](const std::exception_ptr&) {});
        FAIL();
    } catch (const ConfigError& problem) {
        EXPECT_NE(std::string(problem.what()).find("names of the items was "), std::string::npos) << problem.what();
        EXPECT_NE(std::string(problem.what()).find("of run a"), std::string::npos) << problem.what();
    }
    // Refusing changed nothing.
    EXPECT_EQ(read_manifest(config_of("b").output + "/" + kManifestName)->run_id, "a");
}

}  // namespace
}  // namespace offramp
