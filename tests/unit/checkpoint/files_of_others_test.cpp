#include "producer/runner/checkpoint/files_of_others.hpp"

#include <gtest/gtest.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "common/base/error.hpp"
#include "producer/runner/checkpoint/run_checkpoint.hpp"
#include "producer/runner/checkpoint/sealed_line.hpp"
#include "producer/runner/sources/source_fingerprint.hpp"
#include "producer/runner/sources/source_part.hpp"
#include "tests/contract/processors/processor_world.hpp"
#include "tests/unit/checkpoint/made_up_items.hpp"

namespace offramp {
namespace {

using Keys = std::vector<std::string>;
using test::Items;
using test::Numbered;

TensorSpec output_of(const std::string& name, std::vector<std::int64_t> shape) {
    return TensorSpec::contiguous(name, kFloat32, shape);
}

struct FilesOfOthers : ::testing::Test {
    RunConfig config_of(const std::string& processor) const {
        RunConfig config;
        config.source = "synthetic";
        config.model = "copy";
        config.processor = processor;
        config.run_id = "a";
        config.output = folder.path();
        return config;
    }
    void lay(const std::string& name) const {
        std::filesystem::create_directories(std::filesystem::path(folder.path() + "/" + name).parent_path());
        std::ofstream(folder.path() + "/" + name) << "mine";
    }
    void look(const RunConfig& config, const BatchSource& items) const {
        require_no_files_of_others(config, config.catalogue, items, share_of(items, config), outputs, 1);
    }
    // The file that is named, or "".
    std::string refused(const RunConfig& config, const Keys& keys) const { return refused(config, Items(keys)); }
    std::string refused(const RunConfig& config, const Items& items) const {
        try {
            look(config, items);
        } catch (const ConfigError& problem) {
            EXPECT_EQ(problem.kind(), ErrorKind::Usage);
            const std::string said = problem.what();
            EXPECT_NE(said.find("--overwrite"), std::string::npos) << said;
            const std::size_t at = said.find(folder.path() + "/") + folder.path().size() + 1;
            return said.substr(at, said.find(" is there") - at);
        }
        return "";
    }
    std::string refused(const std::string& processor, const Keys& keys) const {
        return refused(config_of(processor), keys);
    }
    // A run of these items that was broken off, `done` of which were.
    void left(const std::string& processor, const Keys& keys, ItemRange done) const {
        left(config_of(processor), keys, done);
    }
    void left(const RunConfig& config, const Keys& keys, ItemRange done) const { left(config, Items(keys), done); }
    static void left(const RunConfig& config, const Items& items, ItemRange done) {
        RunCheckpoint(config, items, EarlierWork::DoneAgain, [](const std::exception_ptr&) {
            ADD_FAILURE();
        }).completed({done});
    }

    test::ScratchFolder folder;
    std::vector<TensorSpec> outputs{output_of("scores", {4, 21, 8, 8})};
};

TEST_F(FilesOfOthers, AreNamedWhereAResultWouldReplaceThem) {
    EXPECT_EQ(refused("mask-png", {"bag", "trip/bag"}), "");
    for (const char* name : {"bag.jpg", "bag.notes.png", "other.png", "trip/ball.png", "bag.npy"}) lay(name);
    EXPECT_EQ(refused("mask-png", {"bag", "trip/bag"}), "") << "no result has such a name";
    lay("trip/bag.png");
    EXPECT_EQ(refused("mask-png", {"bag", "trip/bag"}), "trip/bag.png");
    EXPECT_EQ(refused("auto", {"bag", "trip/bag"}), "trip/bag.png") << "which makes masks of this model";
    EXPECT_EQ(refused("npy", {"bag"}), "") << "bag.scores.npy is its name";
    EXPECT_EQ(refused("overlay", {"bag"}), "bag.jpg");
    EXPECT_EQ(refused("checksum", {"bag"}), "");
    RunConfig asked_for = config_of("mask-png");
    asked_for.overwrite = true;
    EXPECT_EQ(refused(asked_for, {"trip/bag"}), "");
    outputs = {output_of("picture", {4, 3, 8, 8}), output_of("vector", {4, 6})};
    RunConfig pictures = config_of("image");
    EXPECT_EQ(refused(pictures, {"bag"}), "");
    pictures.catalogue.put("image-format", "jpeg");
    EXPECT_EQ(refused(pictures, {"bag"}), "bag.jpg");
    lay("bag.vector.npy");
    EXPECT_EQ(refused("npy", {"bag"}), "bag.vector.npy");
    EXPECT_EQ(refused("npy,checksum", {"bag"}), "") << "each has a folder of its own";
    lay("npy/bag.vector.npy");
    EXPECT_EQ(refused("npy,checksum", {"bag"}), "npy/bag.vector.npy");
}

TEST_F(FilesOfOthers, AreNotWhatACheckpointAccountsFor) {
    lay("bag.png");
    lay("ball.png");
    left("mask-png", {"bag", "ball"}, {0, 1});
    EXPECT_EQ(refused("mask-png", {"bag", "ball"}), "");
    lay("cat.png");
    EXPECT_EQ(refused("mask-png", {"bag", "ball", "cat"}), "cat.png") << "an item that the run did not have";
    std::filesystem::remove(folder.path() + "/cat.png");
    EXPECT_EQ(refused("cut-out", {"bag"}), "bag.png") << "a processor that the run did not have";
    std::ofstream(folder.path() + "/.offramp-checkpoint") << "damaged";
    EXPECT_EQ(refused("mask-png", {"bag"}), "bag.png");
}

// Its key is what an item's files are called by; its columns may have changed since.
TEST_F(FilesOfOthers, NorWhatItAccountsForOfItemsWhoseColumnsChanged) {
    const RunConfig config = config_of("mask-png");
    lay("noted.png");
    lay("bag.png");
    left(config, {"noted", "bag"}, {0, 1});
    Items changed({"noted", "bag"});
    EXPECT_EQ(refused(config, changed), "");
    changed.note = 2;
    EXPECT_EQ(refused(config, changed), "");
    changed.note = 0;
    EXPECT_EQ(refused(config, changed), "");
    lay("cat.png");
    EXPECT_EQ(refused(config, {"noted", "cat"}), "cat.png");
    // The run had no columns: its names are what its results are called by.
    std::filesystem::remove(folder.path() + "/cat.png");
    Items without({"noted", "bag"});
    without.note = 0;
    left(config, without, {0, 1});
    changed.note = 1;
    EXPECT_EQ(refused(config, changed), "");
}

// As it was written before it told what results are called by.
TEST_F(FilesOfOthers, NorWhatAnOlderCheckpointAccountsFor) {
    const RunConfig config = config_of("mask-png");
    Checkpoint checkpoint{.run_id = "a",
                          .pid = 1,
                          .before = 0,
                          .identity = {{{"--processor", "mask-png"}, {"items", "2"}}},
                          .names = {},
                          .done = {}};
    Items items({"noted", "bag"});
    checkpoint.names = hashes_of_items(items);
    std::ofstream(folder.path() + "/" + kCheckpointName) << checkpoint.header_line() + checkpoint.names_lines();
    lay("noted.png");
    lay("bag.png");
    EXPECT_EQ(refused(config, items), "");
    items.note = 2;
    EXPECT_EQ(refused(config, items), "noted.png") << "such a checkpoint knows it with its columns alone";
    EXPECT_EQ(refused(config, {"bag"}), "");
}

TEST_F(FilesOfOthers, NorWhatARunMadeThatNotedNothingDone) {
    left("mask-png", {"bag"}, {0, 1});
    {
        const Items items({"ball", "cat"});
        RunCheckpoint(config_of("mask-png"), items, EarlierWork::DoneAgain, [](const std::exception_ptr&) {
            ADD_FAILURE();
        }).begin({{0, 1}});
    }
    lay("ball.png");
    EXPECT_EQ(refused("mask-png", {"ball", "cat"}), "");
    lay("cat.png");
    EXPECT_EQ(refused("mask-png", {"ball", "cat"}), "cat.png");
}

// Of a run whose items were numbers nothing is known by its name.
TEST_F(FilesOfOthers, ThatLieBesideNumberedItemsAreStillOthers) {
    const RunConfig config = config_of("npy");
    const Numbered ten(10), twenty(20);
    RunCheckpoint(config, ten, EarlierWork::DoneAgain, [](const std::exception_ptr&) {
        ADD_FAILURE();
    }).completed({{0, 4}});
    lay("3.scores.npy");
    EXPECT_NO_THROW(look(config, twenty)) << "that run may have made it";
    lay("12.scores.npy");
    EXPECT_NO_THROW(look(config, ten)) << "no item has that number";
    EXPECT_THROW(look(config, twenty), ConfigError) << "that run had ten items";
    lay("bag.scores.npy");
    EXPECT_EQ(refused("npy", {"bag"}), "bag.scores.npy");
}

TEST_F(FilesOfOthers, AlsoInTheFolderThatIsWrittenTo) {
    RunConfig config = config_of("write");
    config.catalogue.put("write-path", folder.path() + "/files");
    EXPECT_EQ(refused(config, {"bag"}), "") << "it is not there yet";
    lay("bag.scores.bin");
    lay("files/bag.bin");
    EXPECT_EQ(refused(config, {"bag"}), "") << "no result has such a name";
    lay("files/bag.scores.bin");
    EXPECT_EQ(refused(config, {"bag"}), "files/bag.scores.bin");
    config.processor = "npy,write";
    EXPECT_EQ(refused(config, {"bag"}), "files/bag.scores.bin") << "of several processors, too";
    config.overwrite = true;
    EXPECT_EQ(refused(config, {"bag"}), "");
    config.overwrite = false;
    for (const char* nowhere : {"/dev/null", "/files"}) {
        config.catalogue.put("write-path", nowhere);
        EXPECT_EQ(refused(config, {"bag"}), "") << nowhere;
    }
}

// Shards of one input may write to one folder.
TEST_F(FilesOfOthers, AreLookedForAmongAShardsItemsAlone) {
    RunConfig config = config_of("write");
    config.catalogue.put("write-path", folder.path() + "/files");
    config.shard = "1/2";
    left(config, {"bag", "ball"}, {0, 1});
    lay("files/bag.scores.bin");
    lay("files/0.scores.bin");
    config.output = folder.path() + "/second";
    config.shard = "2/2";
    EXPECT_EQ(refused(config, {"bag", "ball"}), "");
    EXPECT_NO_THROW(look(config, Numbered(2)));
    lay("files/ball.scores.bin");
    lay("files/1.scores.bin");
    EXPECT_EQ(refused(config, {"bag", "ball"}), "files/ball.scores.bin");
    EXPECT_THROW(look(config, Numbered(2)), ConfigError);
    config.output = folder.path();
    EXPECT_EQ(refused(config, {"bag", "ball"}), "files/ball.scores.bin") << "the first shard did not make it";
    config.shard = "1/2";
    EXPECT_EQ(refused(config, {"bag", "ball"}), "");
}

TEST_F(FilesOfOthers, AreLookedForAmongAShardsItemsAloneWhateverTheyEndWith) {
    RunConfig config = config_of("so:mine.so");
    config.shard = "2/2";
    lay("bag.any");
    lay("0.any");
    EXPECT_EQ(refused(config, {"bag", "ball"}), "");
    EXPECT_NO_THROW(look(config, Numbered(2)));
    lay("ball.any");
    EXPECT_EQ(refused(config, {"bag", "ball"}), "ball.any");
}

TEST_F(FilesOfOthers, ThereOnlyOfTheRunThatWroteThere) {
    RunConfig config = config_of("write");
    config.catalogue.put("write-path", folder.path() + "/files");
    lay("files/bag.scores.bin");
    lay("others/bag.scores.bin");
    left(config, {"bag"}, {0, 1});
    EXPECT_EQ(refused(config, {"bag"}), "");
    config.catalogue.put("write-path", folder.path() + "/others");
    EXPECT_EQ(refused(config, {"bag"}), "others/bag.scores.bin");
}

// Of what a run that noted nothing done may have made it is known where that went, too.
TEST_F(FilesOfOthers, ThereOnlyOfTheRunsThatMayHaveReplacedSomethingThere) {
    RunConfig config = config_of("write");
    for (const char* where : {"/first", "/second", "/mine"}) lay(where + std::string("/bag.scores.bin"));
    lay("mine/ball.scores.bin");
    const auto broken_off = [&](const std::string& where, ItemRange items) {
        config.catalogue.put("write-path", folder.path() + where);
        RunCheckpoint(config, Items({"bag", "ball"}), EarlierWork::DoneAgain, [](const std::exception_ptr&) {
            ADD_FAILURE();
        }).begin({items});
    };
    config.catalogue.put("write-path", folder.path() + "/first");
    left(config, {"bag"}, {0, 1});
    broken_off("/second", {0, 1});
    const auto refused_in = [&](const std::string& where) {
        config.catalogue.put("write-path", folder.path() + where);
        return refused(config, {"bag", "ball"});
    };
    EXPECT_EQ(refused_in("/first"), "");
    EXPECT_EQ(refused_in("/second"), "");
    EXPECT_EQ(refused_in("/mine"), "mine/bag.scores.bin");
    broken_off("/mine", {1, 2});
    EXPECT_EQ(refused_in("/second"), "") << "what others noted stays theirs";
    EXPECT_EQ(refused_in("/mine"), "mine/bag.scores.bin") << "of this item it made none";
    broken_off("/mine", {0, 1});
    EXPECT_EQ(refused_in("/mine"), "");
    lay("bag.scores.npy");
    EXPECT_EQ(refused("npy", {"bag"}), "bag.scores.npy") << "a processor that no run had";
}

TEST_F(FilesOfOthers, InAFolderOfOneProcessorThatTheRunHadBesideOthers) {
    left("npy,checksum", {"bag"}, {0, 1});
    lay("npy/bag.scores.npy");
    EXPECT_EQ(refused("npy,checksum", {"bag"}), "");
    lay("bag.scores.npy");
    EXPECT_EQ(refused("npy", {"bag"}), "bag.scores.npy") << "its files are in npy/";
}

// As it was noted before it was told of which processors.
TEST_F(FilesOfOthers, NorWhatIsNotedWithoutProcessors) {
    left("mask-png", {"ball"}, {0, 1});
    const std::string seal = read_checkpoint(folder.path() + "/" + kCheckpointName)->seal;
    const std::uint64_t hash = hash_of_result_name("bag", 0);
    std::ofstream(folder.path() + "/.offramp-replaced")
        << sealed_line("\"former\":\"" + seal + "\"}") +
               sealed_line("\"items\":\"" + as_digits(&hash, &hash + 1) + "\"}");
    lay("bag.scores.npy");
    EXPECT_EQ(refused("npy", {"bag"}), "");
    {
        RunCheckpoint(config_of("checksum,overlay"), Items({"cat"}), EarlierWork::DoneAgain,
                      [](const std::exception_ptr&) { ADD_FAILURE(); })
            .begin({{0, 1}});
    }
    EXPECT_EQ(refused("npy", {"bag"}), "") << "nor when others add to it";
}

// Whoever continues the previous run must know what was replaced of it.
TEST_F(FilesOfOthers, ThereAreNotedBeforeTheyAreReplaced) {
    RunConfig config = config_of("write");
    for (const std::string& path : {folder.path() + "/files", std::string("/dev/null")}) {
        config.catalogue.put("write-path", path);
        lay("files/bag.scores.bin");
        left(config, {"bag", "ball"}, {0, 1});
        const Items items({"bag", "ball"});
        RunCheckpoint(config, items, EarlierWork::DoneAgain, [](const std::exception_ptr&) {
            ADD_FAILURE();
        }).begin({{0, 1}});
        const RunCheckpoint continued(config, items, EarlierWork::Resumed,
                                      [](const std::exception_ptr&) { ADD_FAILURE(); });
        EXPECT_EQ(continued.items_before(), path == "/dev/null" ? 1U : 0U) << path;
    }
}

// Items without keys go by their numbers.
TEST_F(FilesOfOthers, OfItemsWithoutKeysToo) {
    lay("1.scores.npy");
    EXPECT_EQ(refused("npy", {"", ""}), "1.scores.npy");
    EXPECT_EQ(refused("npy", {""}), "");
}

// Of made-up items there may be more than anybody could go through.
TEST_F(FilesOfOthers, OfAsManyItemsAsWereAskedFor) {
    const Numbered numbered(1'000'000'000'000);
    const RunConfig config = config_of("npy");
    for (const char* name : {"bag.scores.npy", "012.scores.npy", "12.npy", "-1.scores.npy", "1000000000000.scores.npy"})
        lay(name);
    EXPECT_NO_THROW(look(config, numbered));
    lay("999999999999.scores.npy");
    EXPECT_THROW(look(config, numbered), ConfigError);
}

}  // namespace
}  // namespace offramp
