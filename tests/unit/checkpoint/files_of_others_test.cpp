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
        std::ofstream(folder.path() + "/" + name) << "users";
    }
    void look(const RunConfig& config, const BatchSource& items) const {
        require_no_files_of_others(config, config.catalogue, items, share_of(items, config), outputs, 1);
    }
    // The file named by the refusal, or "".
    std::string refused(const RunConfig& config, const Keys& keys) const { return refused(config, Items(keys)); }
    std::string refused(const RunConfig& config, const Items& items) const {
        try {
            look(config, items);
        } catch (const ConfigError& problem) {
            EXPECT_EQ(problem.kind(), ErrorKind::Usage);
            const std::string text = problem.what();
            EXPECT_NE(text.find("--overwrite"), std::string::npos) << text;
            const std::size_t at = text.find(folder.path() + "/") + folder.path().size() + 1;
            return text.substr(at, text.find(" exists,") - at);
        }
        return "";
    }
    std::string refused(const std::string& processor, const Keys& keys) const {
        return refused(config_of(processor), keys);
    }
    // An interrupted run of these items, of which `done` were done.
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
    EXPECT_EQ(refused("auto", {"bag", "trip/bag"}), "trip/bag.png") << "auto makes masks for this model";
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
    EXPECT_EQ(refused("npy,checksum", {"bag"}), "") << "each has its own folder";
    lay("npy/bag.vector.npy");
    EXPECT_EQ(refused("npy,checksum", {"bag"}), "npy/bag.vector.npy");
}

TEST_F(FilesOfOthers, ExcludeFilesOfACheckpoint) {
    lay("bag.png");
    lay("ball.png");
    left("mask-png", {"bag", "ball"}, {0, 1});
    EXPECT_EQ(refused("mask-png", {"bag", "ball"}), "");
    lay("cat.png");
    EXPECT_EQ(refused("mask-png", {"bag", "ball", "cat"}), "cat.png") << "the run did not have this item";
    std::filesystem::remove(folder.path() + "/cat.png");
    EXPECT_EQ(refused("cut-out", {"bag"}), "bag.png") << "the run did not have this processor";
    std::ofstream(folder.path() + "/.offramp-checkpoint") << "damaged";
    EXPECT_EQ(refused("mask-png", {"bag"}), "bag.png");
}

// An item's files are named by its key; its columns may have changed since.
TEST_F(FilesOfOthers, ExcludeFilesOfItemsWhoseColumnsChanged) {
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
    // The run had no columns: its results are named by its item names.
    std::filesystem::remove(folder.path() + "/cat.png");
    Items without({"noted", "bag"});
    without.note = 0;
    left(config, without, {0, 1});
    changed.note = 1;
    EXPECT_EQ(refused(config, changed), "");
}

// A checkpoint from before it contained the result names.
TEST_F(FilesOfOthers, ExcludeFilesOfAnOlderCheckpoint) {
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
    EXPECT_EQ(refused(config, items), "noted.png") << "an old checkpoint knows it only with its columns";
    EXPECT_EQ(refused(config, {"bag"}), "");
}

TEST_F(FilesOfOthers, ExcludeFilesOfARunThatNotedNothing) {
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

// The results of numbered items are not known by name.
TEST_F(FilesOfOthers, IncludeFilesBesideNumberedItems) {
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

TEST_F(FilesOfOthers, AreAlsoFoundUnderWritePath) {
    RunConfig config = config_of("write");
    config.catalogue.put("write-path", folder.path() + "/files");
    EXPECT_EQ(refused(config, {"bag"}), "") << "the file does not exist yet";
    lay("bag.scores.bin");
    lay("files/bag.bin");
    EXPECT_EQ(refused(config, {"bag"}), "") << "no result has such a name";
    lay("files/bag.scores.bin");
    EXPECT_EQ(refused(config, {"bag"}), "files/bag.scores.bin");
    config.processor = "npy,write";
    EXPECT_EQ(refused(config, {"bag"}), "files/bag.scores.bin") << "one of several processors";
    config.overwrite = true;
    EXPECT_EQ(refused(config, {"bag"}), "");
    config.overwrite = false;
    for (const char* nowhere : {"/dev/null", "/files"}) {
        config.catalogue.put("write-path", nowhere);
        EXPECT_EQ(refused(config, {"bag"}), "") << nowhere;
    }
}

// Shards of one input may share a folder.
TEST_F(FilesOfOthers, AreSearchedOnlyAmongAShardsItems) {
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

TEST_F(FilesOfOthers, AreSearchedOnlyAmongAShardsItemsWithAnySuffix) {
    RunConfig config = config_of("so:custom.so");
    config.shard = "2/2";
    lay("bag.any");
    lay("0.any");
    EXPECT_EQ(refused(config, {"bag", "ball"}), "");
    EXPECT_NO_THROW(look(config, Numbered(2)));
    lay("ball.any");
    EXPECT_EQ(refused(config, {"bag", "ball"}), "ball.any");
}

TEST_F(FilesOfOthers, UnderWritePathExcludeFilesOfItsRun) {
    RunConfig config = config_of("write");
    config.catalogue.put("write-path", folder.path() + "/files");
    lay("files/bag.scores.bin");
    lay("others/bag.scores.bin");
    left(config, {"bag"}, {0, 1});
    EXPECT_EQ(refused(config, {"bag"}), "");
    config.catalogue.put("write-path", folder.path() + "/others");
    EXPECT_EQ(refused(config, {"bag"}), "others/bag.scores.bin");
}

// For a run that noted nothing done, the folder of its results is known, too.
TEST_F(FilesOfOthers, UnderWritePathExcludeFilesOfInterruptedRuns) {
    RunConfig config = config_of("write");
    for (const char* where : {"/first", "/second", "/own"}) lay(where + std::string("/bag.scores.bin"));
    lay("own/ball.scores.bin");
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
    EXPECT_EQ(refused_in("/own"), "own/bag.scores.bin");
    broken_off("/own", {1, 2});
    EXPECT_EQ(refused_in("/second"), "") << "notes of other runs stay valid";
    EXPECT_EQ(refused_in("/own"), "own/bag.scores.bin") << "it made none of this item";
    broken_off("/own", {0, 1});
    EXPECT_EQ(refused_in("/own"), "");
    lay("bag.scores.npy");
    EXPECT_EQ(refused("npy", {"bag"}), "bag.scores.npy") << "no run had this processor";
}

TEST_F(FilesOfOthers, AreFoundInAFolderOfOneOfSeveralProcessors) {
    left("npy,checksum", {"bag"}, {0, 1});
    lay("npy/bag.scores.npy");
    EXPECT_EQ(refused("npy,checksum", {"bag"}), "");
    lay("bag.scores.npy");
    EXPECT_EQ(refused("npy", {"bag"}), "bag.scores.npy") << "its files are in npy/";
}

// A note from before notes named the processors.
TEST_F(FilesOfOthers, ExcludeFilesNotedWithoutProcessors) {
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
    EXPECT_EQ(refused("npy", {"bag"}), "") << "nor with additions by others";
}

// A run that continues the previous one must know which of its results were replaced.
TEST_F(FilesOfOthers, AreNotedBeforeTheyAreReplaced) {
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

// Items without keys are named by their numbers.
TEST_F(FilesOfOthers, AreAlsoFoundForItemsWithoutKeys) {
    lay("1.scores.npy");
    EXPECT_EQ(refused("npy", {"", ""}), "1.scores.npy");
    EXPECT_EQ(refused("npy", {""}), "");
}

// There may be too many made-up items to check each.
TEST_F(FilesOfOthers, AreListedUpToTheRequestedNumber) {
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
