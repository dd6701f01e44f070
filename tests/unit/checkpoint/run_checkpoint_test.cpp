#include "producer/runner/checkpoint/run_checkpoint.hpp"

#include <gmock/gmock.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>

#include "common/base/error.hpp"
#include "producer/runner/checkpoint/checkpoint_file.hpp"
#include "producer/runner/checkpoint/items_file.hpp"
#include "producer/runner/sources/source_items.hpp"
#include "tests/contract/processors/processor_world.hpp"
#include "tests/support/error_of.hpp"
#include "tests/unit/checkpoint/made_up_items.hpp"
#include "tests/unit/ingest/prefetch_world.hpp"

namespace offramp {
namespace {

using ::testing::HasSubstr;

struct RunCheckpointTest : ::testing::Test {
    RunConfig config_of(const std::string& run_id) const {
        RunConfig config;
        config.source = "synthetic";
        config.model = "copy";
        config.processor = processor;
        config.batch = 4;
        config.run_id = run_id;
        config.output = folder.path() + "/made/for/it";
        return config;
    }
    RunCheckpoint run(const std::string& run_id, EarlierWork earlier) {
        return {config_of(run_id), source, earlier, [](const std::exception_ptr&) { ADD_FAILURE(); }};
    }
    static void complete(RunCheckpoint& checkpoint, ItemRange items) { checkpoint.completed({items}); }

    std::string processor = "checksum";
    test::ScratchFolder folder;
    FakeSource source{20, RowKind::Nothing};
};

TEST_F(RunCheckpointTest, ARunContinuesTheWorkOfEarlierOnes) {
    {
        RunCheckpoint first = run("a", EarlierWork::Resumed);  // there is no checkpoint yet
        EXPECT_TRUE(first.done().empty());
        complete(first, {0, 4});
    }
    {
        RunCheckpoint second = run("b", EarlierWork::Resumed);
        EXPECT_EQ(second.items_before(), 4U);
        complete(second, {8, 12});
    }
    const RunCheckpoint third = run("b", EarlierWork::Resumed);
    EXPECT_EQ(third.done().list(), (std::vector<ItemRange>{{0, 4}, {8, 12}}));
    EXPECT_EQ(third.items_before(), 8U);
}

// There may be very many.
TEST_F(RunCheckpointTest, AsksItemsWithoutNamesForNoShapes) {
    struct Unasked final : test::Numbered {
        using Numbered::Numbered;
        std::span<const std::int64_t> shape(std::uint64_t /*item*/) const override {
            ADD_FAILURE();
            return {};
        }
    };
    const Unasked source_without_names(3);
    const RunCheckpoint checkpoint(config_of("a"), source_without_names, EarlierWork::DoneAgain,
                                   [](const std::exception_ptr&) { ADD_FAILURE(); });
    EXPECT_TRUE(checkpoint.done().empty());
}

// A checkpoint of this kind has other items.
TEST_F(RunCheckpointTest, RefusesAShardsWorkUnderItsOwnNumbers) {
    RunConfig config = config_of("a");
    config.shard = "2/4";
    const auto no_failure = [](const std::exception_ptr&) { ADD_FAILURE(); };
    {
        RunCheckpoint first(config, source, EarlierWork::DoneAgain, no_failure);
        complete(first, {5, 10});
    }
    const std::string path = config.output + "/" + kCheckpointName;
    auto left = read_checkpoint(path);
    EXPECT_EQ(RunCheckpoint(config, source, EarlierWork::Resumed, no_failure).items_before(), 5U);
    left->identity.facts.erase("numbers of the items");
    left->identity.facts["items"] = "5";
    std::ofstream(path) << left->header_line();
    EXPECT_THAT(test::error_of<ConfigError>(
                    [&] { const RunCheckpoint again(config, source, EarlierWork::Resumed, no_failure); }),
                HasSubstr("holds other work"));
}

TEST_F(RunCheckpointTest, ASuccessorKnowsTheStartOfTheRun) {
    {
        RunCheckpoint first = run("a", EarlierWork::DoneAgain);
        complete(first, {0, 4});
    }
    {
        RunCheckpoint second = run("b", EarlierWork::Resumed);
        complete(second, {8, 12});
    }
    {
        RunCheckpoint taken_over = run("b", EarlierWork::Recovered);
        EXPECT_EQ(taken_over.done().items(), 8U);
        EXPECT_EQ(taken_over.items_before(), 4U);
        complete(taken_over, {12, 16});
    }
    EXPECT_EQ(run("b", EarlierWork::Recovered).items_before(), 4U);
}

TEST_F(RunCheckpointTest, AnotherRunDoesNotTakeTheFolder) {
    {
        RunCheckpoint first = run("a", EarlierWork::DoneAgain);
        EXPECT_FALSE(read_checkpoint(config_of("a").output + "/" + kCheckpointName)) << "it has no result yet";
        first.begin({{0, 4}});
        EXPECT_EQ(read_checkpoint(config_of("a").output + "/" + kCheckpointName)->run_id, "a") << "before a result";
        complete(first, {0, 4});
    }
    EXPECT_TRUE(run("a", EarlierWork::DoneAgain).done().empty()) << "a successor of a producer that died early";
    const auto before = test::read_tree(config_of("a").output);
    EXPECT_THAT(test::error_of<ConfigError>([&] { run("b", EarlierWork::DoneAgain); }),
                testing::AllOf(HasSubstr("holds the work of run a"), HasSubstr("--resume")));
    EXPECT_EQ(test::read_tree(config_of("a").output), before);
    EXPECT_EQ(run("c", EarlierWork::Resumed).done().list(), (std::vector<ItemRange>{{0, 4}}));
}

TEST_F(RunCheckpointTest, TreatsOtherItemNamesAsOtherWork) {
    { run("a", EarlierWork::DoneAgain).begin({{0, 4}}); }
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
    EXPECT_THAT(test::error_of<ConfigError>([&] {
                    const RunCheckpoint second(config_of("b"), renamed, EarlierWork::Resumed,
                                               [](const std::exception_ptr&) {});
                }),
                testing::AllOf(HasSubstr("names of the items was "), HasSubstr("of run a")));
    // A refusal changes nothing.
    EXPECT_EQ(read_checkpoint(config_of("b").output + "/" + kCheckpointName)->run_id, "a");
}

using test::Items;

// The second shard, of items "c" and "d", of a job with an index. It is asked for no other item.
struct IndexedShard final : test::Numbered {
    IndexedShard(std::uint64_t items, ListIndex of_list) : Numbered(items), list(std::move(of_list)) {}
    std::string_view key(std::uint64_t item) const override {
        if (item < 2) ADD_FAILURE() << "the key is another shard's";
        return item == 2 ? "c" : "d";
    }
    std::size_t max_key_bytes() const override { return 24; }
    const ListIndex* index() const override { return &list; }

    ListIndex list;
};

std::string bytes_of(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
}

TEST_F(RunCheckpointTest, AnIndexGivesTheSameCheckpointWithoutTheItems) {
    const Items items({"a", "b", "c", "d"});
    RunConfig config = config_of("a");
    config.shard = "2/2";
    const auto run_of = [&](const BatchSource& one, const std::string& output, EarlierWork earlier) {
        config.output = folder.path() + "/" + output;
        RunCheckpoint checkpoint(config, one, earlier, [](const std::exception_ptr&) { ADD_FAILURE(); });
        EXPECT_EQ(checkpoint.source_hash(), source_hash(items));
        if (checkpoint.done().empty()) complete(checkpoint, {2, 3});
        checkpoint.close();
        EXPECT_EQ(read_checkpoint(config.output + "/" + kCheckpointName)->done.list(),
                  (std::vector<ItemRange>{{2, 3}}));
    };
    run_of(items, "whole", EarlierWork::DoneAgain);
    const std::string kept = folder.path() + "/input.items", written = folder.path() + "/part/" + kItemsFileName;
    std::filesystem::copy_file(folder.path() + "/whole/" + kItemsFileName, kept);
    ListIndex list;
    list.items = 4;
    list.items_hash = source_hash(items);
    list.items_file = kept;
    const IndexedShard part(4, list);
    const auto expect_equal = [&](bool is_linked) {
        EXPECT_EQ(bytes_of(folder.path() + "/part/" + kCheckpointName),
                  bytes_of(folder.path() + "/whole/" + kCheckpointName));
        EXPECT_EQ(bytes_of(written), bytes_of(kept));
        EXPECT_EQ(std::filesystem::equivalent(written, kept), is_linked);
    };
    run_of(part, "part", EarlierWork::DoneAgain);
    expect_equal(true);
    config.resume = true;
    const auto ordered = in_order_of_previous_runs(std::make_unique<IndexedShard>(4, list), config.output);
    for (const bool is_damaged : {false, true}) {
        if (is_damaged) {
            std::filesystem::remove(written);
            std::ofstream(written) << "of another run";
        }
        run_of(*ordered, "part", EarlierWork::Resumed);
        EXPECT_EQ(bytes_of(written) == bytes_of(kept), !is_damaged) << "not before the checkpoint's first line";
    }
    config.output = folder.path() + "/part";
    RunCheckpoint(config, *ordered, EarlierWork::Resumed, [](const std::exception_ptr&) {
        ADD_FAILURE();
    }).begin({{3, 4}});
    EXPECT_EQ(bytes_of(written), bytes_of(kept));
    EXPECT_FALSE(std::filesystem::equivalent(written, kept)) << "a copy in the other file's place";
}

struct ItemsOfAJob : RunCheckpointTest {
    ~ItemsOfAJob() override { std::filesystem::remove(elsewhere); }

    // The items file of a job at this path, and its index.
    ListIndex made_at(const std::string& path) {
        const Items items({"a", "b", "c", "d"});
        WholeFile file(path, 0644, [](int problem) { return SystemError("writing", problem); });
        file.write(std::string("offritem\1\0\0\0\0\0\0\0", 16));
        write_hashes(file, hashes_of_items(items));
        static_cast<void>(file.put_in_place());
        ListIndex list;
        list.items = 4;
        list.items_hash = source_hash(items);
        list.items_file = path;
        return list;
    }
    void run_of(const ListIndex& list, EarlierWork earlier) {
        const IndexedShard part(4, list);
        RunConfig config = config_of("a");
        config.shard = "2/2";
        RunCheckpoint checkpoint(config, part, earlier, [](const std::exception_ptr&) { ADD_FAILURE(); });
        if (checkpoint.done().empty()) complete(checkpoint, {2, 3});
    }
    static void damage(const std::string& path, std::streamoff at = 20) {
        std::fstream(path, std::ios::in | std::ios::out | std::ios::binary).seekp(at).write("?", 1);
    }

    const std::string elsewhere = "/dev/shm/offramp-test-items-" + std::to_string(::getpid());
};

TEST_F(ItemsOfAJob, AreCopiedToAnotherFileSystem) {
    const ListIndex list = made_at(elsewhere);
    run_of(list, EarlierWork::DoneAgain);
    const std::string copy = config_of("a").output + "/" + kItemsFileName;
    EXPECT_FALSE(std::filesystem::equivalent(copy, elsewhere));
    EXPECT_EQ(bytes_of(copy), bytes_of(elsewhere));
    damage(elsewhere);
    run_of(list, EarlierWork::Resumed);  // it has its own
    std::filesystem::remove(copy);
    EXPECT_THAT(test::error_of<Error>([&] { run_of(list, EarlierWork::Resumed); }),
                testing::AllOf(HasSubstr(elsewhere), HasSubstr("is damaged"), HasSubstr("Remove it")));
}

TEST_F(ItemsOfAJob, AreComparedWithTheCheckpointOfAShardThatGoesOn) {
    const std::string kept = folder.path() + "/input.items";
    const ListIndex list = made_at(kept);
    run_of(list, EarlierWork::DoneAgain);
    EXPECT_TRUE(std::filesystem::equivalent(config_of("a").output + "/" + kItemsFileName, kept));
    run_of(list, EarlierWork::Resumed);
    damage(kept);
    EXPECT_THAT(test::error_of<Error>([&] { run_of(list, EarlierWork::Resumed); }),
                testing::AllOf(HasSubstr(kept), HasSubstr("is damaged")));
    std::filesystem::resize_file(kept, 8);
    EXPECT_THAT(test::error_of<Error>([&] { run_of(list, EarlierWork::Resumed); }), HasSubstr("is damaged"));
}

TEST_F(ItemsOfAJob, AShardComparesItsPartWhenItBegins) {
    const std::string kept = folder.path() + "/input.items";
    const ListIndex list = made_at(kept);
    damage(kept, 16 + 3 * 8);
    EXPECT_THAT(test::error_of<Error>([&] { run_of(list, EarlierWork::DoneAgain); }),
                testing::AllOf(HasSubstr(kept), HasSubstr("is damaged"), HasSubstr("Remove it")));
    EXPECT_FALSE(read_checkpoint(config_of("a").output + "/" + kCheckpointName));
    made_at(kept);
    damage(kept);  // another shard's part
    std::filesystem::remove(config_of("a").output + "/" + kItemsFileName);
    run_of(list, EarlierWork::DoneAgain);
}

struct GrowingInput : RunCheckpointTest {
    // A run that continues with these items, in their order; returns the done ones.
    std::vector<std::string> done_of(std::unique_ptr<BatchSource> items) {
        const std::unique_ptr<BatchSource> ordered = in_order_of_previous_runs(std::move(items), config_of("b").output);
        order.clear();
        for (std::uint64_t item = 0; item < ordered->items(); ++item) order.emplace_back(ordered->key(item));
        RunCheckpoint checkpoint(config_of("b"), *ordered, EarlierWork::Resumed,
                                 [](const std::exception_ptr&) { ADD_FAILURE(); });
        EXPECT_EQ(checkpoint.source_hash(), source_hash(*ordered));
        checkpoint.begin({{0, 1}});
        std::vector<std::string> done;
        for (const ItemRange& range : checkpoint.done().list())
            for (std::uint64_t item = range.begin; item < range.end; ++item) done.emplace_back(ordered->key(item));
        return done;
    }
    std::vector<std::string> done_of(const std::vector<std::string>& keys) {
        return done_of(std::make_unique<Items>(keys));
    }
    void begin_with(const std::vector<std::string>& keys, ItemRange done) {
        const Items items(keys);
        RunCheckpoint first(config_of("a"), items, EarlierWork::DoneAgain,
                            [](const std::exception_ptr&) { ADD_FAILURE(); });
        EXPECT_EQ(first.source_hash(), source_hash(items));
        complete(first, done);
    }
    std::string refusal_of(const std::vector<std::string>& keys) {
        return test::error_of<ConfigError>([&] { done_of(keys); });
    }

    using Keys = std::vector<std::string>;
    Keys order;
};

TEST_F(GrowingInput, NumbersNewItemsLastAndKeepsDoneOnes) {
    begin_with({"b", "d", "f"}, {1, 3});
    EXPECT_EQ(done_of({"a", "b", "c", "d", "e", "f"}), (Keys{"d", "f"}));
    EXPECT_EQ(order, (Keys{"b", "d", "f", "a", "c", "e"}));
    // The next run knows the order of this one.
    EXPECT_EQ(done_of({"0", "a", "b", "c", "d", "e", "f"}), (Keys{"d", "f"}));
    EXPECT_EQ(order, (Keys{"b", "d", "f", "a", "c", "e", "0"}));
}

TEST_F(GrowingInput, KeepsTheShapesOfEarlierItems) {
    using Shapes = std::vector<std::vector<std::int64_t>>;
    const auto items_of = [](const Keys& keys, const Shapes& shapes) {
        auto items = std::make_unique<Items>(keys);
        items->shapes = shapes;
        return items;
    };
    {
        const auto items = items_of({"b", "c", "d", "e"}, {{1, 2}, {}, {1, 3}, {1, 4}});
        RunCheckpoint first(config_of("a"), *items, EarlierWork::DoneAgain,
                            [](const std::exception_ptr&) { ADD_FAILURE(); });
        complete(first, {0, 1});
    }
    // One item joins, one is mended, one changes, one becomes unreadable, one stays.
    const auto now = in_order_of_previous_runs(
        items_of({"a", "b", "c", "d", "e"}, {{1, 8}, {1, 9}, {1, 7}, {}, {1, 4}}), config_of("b").output);
    EXPECT_EQ(shapes_of_items(*now), (Shapes{{1, 2}, {1, 7}, {1, 3}, {1, 4}, {1, 8}}));
    for (const std::uint64_t item : {1, 2, 3, 4}) EXPECT_NO_THROW(now->load(item, {})) << item;
    EXPECT_THAT(test::error_of<UnreadableItem>([&] { now->load(0, {}); }),
                HasSubstr("its shape was [1, 2] in an earlier run, and is [1, 9]"));
}

// Its items would belong to another shard.
TEST_F(GrowingInput, AShardContinuesOnlyAtTheSameOffset) {
    const auto shard_of = [this](const std::string& shard, const Keys& keys, EarlierWork earlier) {
        RunConfig config = config_of("a");
        config.output += shard.substr(0, 1);
        config.shard = shard;
        return RunCheckpoint(config, Items(keys), earlier, [](const std::exception_ptr&) { ADD_FAILURE(); });
    };
    const Keys two{"a", "b"}, four{"a", "b", "c", "d"};
    shard_of("1/2", two, EarlierWork::DoneAgain).completed({{0, 1}});
    shard_of("2/2", two, EarlierWork::DoneAgain).completed({{1, 2}});
    EXPECT_EQ(shard_of("1/2", four, EarlierWork::Resumed).done().list(), (std::vector<ItemRange>{{0, 1}}));
    EXPECT_EQ(shard_of("2/2", two, EarlierWork::Resumed).done().list(), (std::vector<ItemRange>{{1, 2}}));
    EXPECT_THAT(test::error_of<ConfigError>([&] { shard_of("2/2", four, EarlierWork::Resumed); }),
                testing::AllOf(HasSubstr("items was 2 and is 4"),
                               HasSubstr("Its items began at number 1, and now begin at number 2")));
}

// Until then an earlier run's file stays with its checkpoint.
TEST_F(GrowingInput, ItsItemsFileComesWithTheCheckpoint) {
    const Items items({"b", "d"});
    const auto run = [&](const std::string& id, EarlierWork earlier) {
        return RunCheckpoint(config_of(id), items, earlier, [](const std::exception_ptr&) { ADD_FAILURE(); });
    };
    const std::string path = config_of("a").output + "/" + kItemsFileName;
    { const RunCheckpoint first = run("a", EarlierWork::DoneAgain); }
    EXPECT_TRUE(test::read_tree(config_of("a").output).empty()) << "it has no result";
    run("a", EarlierWork::DoneAgain).begin({{0, 1}});
    const std::filesystem::path same = folder.path() + "/same";
    std::filesystem::create_hard_link(path, same);
    EXPECT_EQ(done_of({"b", "d"}), Keys{});
    EXPECT_TRUE(std::filesystem::equivalent(path, same)) << "it is not written again";
    EXPECT_EQ(std::filesystem::file_size(path), 16U + 2 * 8U);
    EXPECT_EQ(done_of({"a", "b", "d"}), Keys{});
    EXPECT_EQ(std::filesystem::file_size(path), 16U + 3 * 8U);
    EXPECT_EQ(std::filesystem::file_size(same), 16U + 2 * 8U) << "it is replaced: it may be another user's";
}

// Its hashes are there before the checkpoint that vouches for them.
TEST_F(GrowingInput, ContinuesAfterADeathBetweenItsTwoFiles) {
    begin_with({"b", "d"}, {0, 2});
    const std::string checkpoint = config_of("a").output + "/" + kCheckpointName;
    std::filesystem::copy_file(checkpoint, folder.path() + "/kept");
    EXPECT_EQ(done_of({"a", "b", "d"}), (Keys{"b", "d"}));
    std::filesystem::rename(folder.path() + "/kept", checkpoint);
    EXPECT_EQ(done_of({"b", "c", "d"}), (Keys{"b", "d"}));
    EXPECT_EQ(order, (Keys{"b", "d", "c"}));
    EXPECT_EQ(done_of({"b", "c", "d", "e"}), (Keys{"b", "d"}));
    EXPECT_EQ(order, (Keys{"b", "d", "c", "e"}));
}

// Items that keep their order have the same numbers without it.
TEST_F(GrowingInput, NeedsTheItemsFileOnlyForAnotherOrder) {
    const std::string path = config_of("a").output + "/" + kItemsFileName;
    const auto damage = [&] { std::fstream(path, std::ios::in | std::ios::out | std::ios::binary).seekp(20) << "x"; };
    const auto remove = [&] { std::filesystem::remove(path); };
    for (const std::function<void()>& spoil : std::vector<std::function<void()>>{damage, remove}) {
        std::filesystem::remove_all(config_of("a").output);
        begin_with({"b", "d"}, {0, 2});
        spoil();
        EXPECT_THAT(test::error_of(
                        [&] {
                            done_of({"d", "b"});
                        },
                        ErrorKind::BadInput),
                    testing::AllOf(HasSubstr(path), HasSubstr("--overwrite")));
        EXPECT_THAT(test::error_of([&] { done_of({"a", "b", "d"}); }, ErrorKind::BadInput), HasSubstr(path));
        EXPECT_THAT(test::error_of([&] { done_of({"b"}); }, ErrorKind::BadInput), HasSubstr(path));
        EXPECT_EQ(done_of({"b", "d"}), (Keys{"b", "d"}));
        EXPECT_EQ(done_of({"d", "b"}), (Keys{"b", "d"})) << "that run has written it again";
        spoil();
        EXPECT_EQ(done_of({"b", "d", "e"}), (Keys{"b", "d"})) << "items joined at the end";
        EXPECT_EQ(done_of({"a", "b", "d", "e"}), (Keys{"b", "d"}));
    }
}

TEST_F(GrowingInput, AnErrorNamesTheItemsFile) {
    const std::string path = config_of("a").output + "/" + kItemsFileName;
    std::filesystem::create_directories(path + ".new/in the way");
    EXPECT_THAT(test::error_of<SystemError>([&] {
                    begin_with({"b"}, {0, 1});
                }),
                testing::AllOf(HasSubstr("cannot write " + path), HasSubstr("--resume then continues from here")));
}

// They are told apart only by their order.
TEST_F(GrowingInput, RefusesEqualHashesInAnotherOrder) {
    begin_with({"b", "b", "d"}, {0, 1});
    EXPECT_EQ(done_of({"b", "b", "d"}), (Keys{"b"}));
    EXPECT_THAT(test::error_of(
                    [&] {
                        done_of({"d", "b", "b"});
                    },
                    ErrorKind::BadInput),
                testing::AllOf(HasSubstr("have the same hash"), HasSubstr("earlier order")));
}

TEST_F(GrowingInput, AcceptsTheSameItemsInAnotherOrder) {
    begin_with({"b", "d", "f"}, {1, 3});
    EXPECT_EQ(done_of({"f", "d", "b"}), (Keys{"d", "f"}));
    EXPECT_EQ(order, (Keys{"b", "d", "f"}));
}

TEST_F(GrowingInput, RefusesMissingAndRenamedItems) {
    begin_with({"b", "d", "plain"}, {0, 3});
    for (const Keys& keys : {Keys{"b", "d"}, Keys{"b", "d", "plain.jpg", "plain.png"}, Keys{"a", "b", "d", "e"}})
        EXPECT_NE(refusal_of(keys).find("Of its 3 items 1 is gone, or renamed"), std::string::npos) << refusal_of(keys);
    auto changed = std::make_unique<Items>(Keys{"noted", "b"});
    std::filesystem::remove_all(config_of("a").output);
    begin_with({"noted"}, {0, 1});
    changed->note = 2;
    EXPECT_THROW(done_of(std::move(changed)), ConfigError) << "its columns differ";
    EXPECT_EQ(done_of({"b", "noted"}), (Keys{"noted"}));
}

// Items without keys, each with a text from the test.
class Lines final : public BatchSource {
  public:
    Lines(std::vector<std::uint64_t> lines, bool grows) : lines_(std::move(lines)), grows_(grows) {}
    std::string description() const override { return "lines"; }
    std::uint64_t items() const override { return lines_.size(); }
    RowKind row_kind() const override { return RowKind::Nothing; }
    std::string_view key(std::uint64_t) const override { return {}; }
    std::size_t max_key_bytes() const override { return 0; }
    std::string origin(std::uint64_t) const override { return ""; }
    std::uint64_t note_hash(std::uint64_t item) const override { return lines_[item]; }
    bool grows_at_its_end() const override { return grows_; }
    void load(std::uint64_t, std::span<std::byte>) override {}

  private:
    std::vector<std::uint64_t> lines_;
    bool grows_;
};

TEST_F(GrowingInput, NewLinesMustBeAtTheEnd) {
    const auto run = [this](const std::vector<std::uint64_t>& lines, bool grows, EarlierWork earlier) {
        return std::make_unique<RunCheckpoint>(config_of("a"), Lines(lines, grows), earlier,
                                               [](const std::exception_ptr&) { ADD_FAILURE(); });
    };
    complete(*run({7, 8, 9}, true, EarlierWork::DoneAgain), {0, 3});
    EXPECT_THROW(run({6, 7, 8, 9}, true, EarlierWork::Resumed), ConfigError);
    EXPECT_THROW(run({7, 8, 9, 10}, false, EarlierWork::Resumed), ConfigError) << "the first items may have changed";
    EXPECT_THROW(run({7, 8}, true, EarlierWork::Resumed), ConfigError);
    EXPECT_EQ(run({7, 8, 9, 10}, true, EarlierWork::Resumed)->done().items(), 3U);
}

}  // namespace
}  // namespace offramp
