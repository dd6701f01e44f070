#include "producer/runner/checkpoint/run_checkpoint.hpp"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>

#include "common/app/program/output_share.hpp"
#include "common/base/error.hpp"
#include "producer/runner/checkpoint/items_file.hpp"
#include "tests/contract/processors/processor_world.hpp"
#include "tests/support/error_of.hpp"
#include "tests/unit/checkpoint/made_up_items.hpp"
#include "tests/unit/ingest/prefetch_world.hpp"

namespace offramp {
namespace {

using ::testing::HasSubstr;

struct JoinedCheckpoint : ::testing::Test {
    RunConfig config_of(const std::string& shard, const std::string& place) const {
        RunConfig config;
        config.source = "synthetic";
        config.model = "copy";
        config.processor = "checksum";
        config.batch = 4;
        config.seed = seed;
        config.shard = shard;
        config.run_id = "run";
        config.output = place;
        return config;
    }
    // Shard `index` of two, with these items done.
    void leave(std::uint64_t index, ItemRange done, EarlierWork earlier = EarlierWork::DoneAgain) {
        leave(index, done, earlier, source);
    }
    void leave(std::uint64_t index, ItemRange done, EarlierWork earlier, const BatchSource& items) {
        RunCheckpoint checkpoint(config_of(std::to_string(index + 1) + "/2", shard_place(folder.path(), index)), items,
                                 earlier, [](const std::exception_ptr&) { ADD_FAILURE(); });
        checkpoint.completed({done});
        checkpoint.close();
        checkpoint.end();
    }
    std::vector<ItemRange> done_by_a_run() {
        const RunCheckpoint run(config_of("", folder.path()), source, EarlierWork::Resumed,
                                [](const std::exception_ptr&) { ADD_FAILURE(); });
        return run.done().list();
    }

    std::uint64_t seed = 0;
    test::ScratchFolder folder;
    FakeSource source{20, RowKind::Nothing};
};

TEST_F(JoinedCheckpoint, ARunOfTheWholeInputContinuesFromIt) {
    leave(0, {0, 9});
    leave(1, {10, 20});
    const std::vector<DoneShard> shards{{.index = 0, .whole = false}, {.index = 1}};
    join_checkpoints(folder.path(), "job", shards, 2);
    EXPECT_EQ(done_by_a_run(), (std::vector<ItemRange>{{0, 9}, {10, 20}}));
    const auto joined = read_checkpoint(folder.path() + "/" + kCheckpointName);
    EXPECT_EQ(joined->run_id, "job");
    EXPECT_TRUE(joined->ended);
}

TEST_F(JoinedCheckpoint, IdentifiesItsItems) {
    const std::vector<DoneShard> shards{{.index = 0}, {.index = 1}};
    const test::Items items({"b", "d"});
    leave(0, {0, 1}, EarlierWork::DoneAgain, items);
    leave(1, {1, 2}, EarlierWork::DoneAgain, items);
    const std::string place = shard_place(folder.path(), 0), shards_file = place + "/" + kItemsFileName;
    const std::string other = shard_place(folder.path(), 1) + "/" + kItemsFileName;
    std::filesystem::remove(shards_file);
    std::filesystem::rename(other, place + "/aside");
    EXPECT_THAT(test::error_of([&] { join_checkpoints(folder.path(), "job", shards, 2); }, ErrorKind::BadInput),
                testing::AllOf(HasSubstr(shards_file + " is gone, damaged"), HasSubstr("Remove " + place)));
    EXPECT_FALSE(std::filesystem::exists(folder.path() + "/" + kCheckpointName));
    std::filesystem::rename(place + "/aside", other);
    join_checkpoints(folder.path(), "job", shards, 2);
    const auto grown = in_order_of_previous_runs(std::make_unique<test::Items>(std::vector<std::string>{"a", "b", "d"}),
                                                 folder.path());
    EXPECT_EQ(grown->key(0), "b");
    EXPECT_EQ(grown->key(2), "a");
}

TEST_F(JoinedCheckpoint, RemovesTheRemainsOfAKilledMerge) {
    leave(0, {0, 10});
    const std::string left = folder.path() + "/" + kCheckpointName + ".new";
    std::ofstream(left) << "half";
    join_checkpoints(folder.path(), "job", std::vector<DoneShard>{{.index = 0}}, 2);
    EXPECT_FALSE(std::filesystem::exists(left));
    EXPECT_EQ(done_by_a_run(), (std::vector<ItemRange>{{0, 10}}));
}

TEST_F(JoinedCheckpoint, APartOfAJobIsUnfinished) {
    leave(1, {10, 12});  // its checkpoint is behind its record
    const std::vector<DoneShard> shards{{.index = 1}};
    join_checkpoints(folder.path(), "job", shards, 2);
    EXPECT_EQ(done_by_a_run(), (std::vector<ItemRange>{{10, 20}}));
    EXPECT_FALSE(read_checkpoint(folder.path() + "/" + kCheckpointName)->ended);
}

TEST_F(JoinedCheckpoint, RefusesShardsOfOtherWork) {
    leave(0, {0, 10});
    seed = 7;
    leave(1, {10, 20});
    const std::vector<DoneShard> both{{.index = 0}, {.index = 1}};
    EXPECT_THAT(test::error_of<ConfigError>([&] { join_checkpoints(folder.path(), "job", both, 2); }),
                HasSubstr("--seed was 0 and is 7"));
    EXPECT_FALSE(std::filesystem::exists(folder.path() + "/" + kCheckpointName));
}

// Neither the record nor the list of done items may stay: each would mean that nothing is left to do.
TEST_F(JoinedCheckpoint, ReportsDamagedOrMissingPartsWithTheRemedy) {
    leave(0, {0, 10});
    leave(1, {10, 20});
    const std::string place = shard_place(folder.path(), 1);
    const std::string path = place + "/" + kCheckpointName;
    const auto refusal = [&] {
        return test::error_of(
            [&] {
                join_checkpoints(folder.path(), "job", std::vector<DoneShard>{{.index = 0}, {.index = 1}}, 2);
            },
            ErrorKind::BadInput);
    };
    std::ofstream(path) << "users";
    EXPECT_THAT(refusal(), HasSubstr(path + " is damaged. Remove " + place + " and, in the job's folder, done/1.json"));
    std::filesystem::remove(path);
    EXPECT_THAT(refusal(), HasSubstr(path + " is gone. Remove " + place + " and, in the job's folder, done/1.json"));
    EXPECT_FALSE(std::filesystem::exists(folder.path() + "/" + kCheckpointName));
}

}  // namespace
}  // namespace offramp
