// The contract of every processor (processor.hpp): one suite, instantiated for each of them.
#include <gmock/gmock.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <set>
#include <span>

#include "common/app/settings/processor_results.hpp"
#include "common/base/error.hpp"
#include "consumer/processors/results/outputs_of_run.hpp"
#include "tests/contract/processors/killed_child.hpp"
#include "tests/contract/processors/processor_world.hpp"
#include "tests/support/error_of.hpp"

namespace offramp::test {
namespace {

constexpr const char* kSeparateProcess = "it works in a separate process, which this test cannot observe";

class ProcessorContract : public ::testing::TestWithParam<std::string> {
  protected:
    void SetUp() override {
        if (const std::string missing = missing_requirement(GetParam()); !missing.empty()) GTEST_SKIP() << missing;
    }

    bool leaves_files() const { return GetParam() != "none"; }
    bool posts() const { return GetParam() == "http"; }
    bool needs_originals() const {
        return GetParam() == "cut-out" || GetParam() == "overlay" || GetParam() == "mask-png";
    }
    bool names_files_by_key() const {
        return GetParam() == "write" || GetParam() == "image" || GetParam() == "npy" || GetParam() == "safetensors" ||
               needs_originals() || is_hosted(GetParam());
    }

    std::vector<MemorySlab> grouped(const std::vector<std::uint64_t>& sizes) const {
        std::vector<MemorySlab> slabs;
        std::uint64_t first = 0;
        for (const std::uint64_t size : sizes) {
            slabs.push_back(make_slab(first, size));
            first += size;
        }
        EXPECT_EQ(first, kItems);
        return slabs;
    }

    // Leaves the state of a consumer killed after its last slab: a database's log is still there.
    void process_all_and_die(const RunConfig& config) const {
        const Outcome fate = killed_at_call(1, [&](const std::function<void()>& die) {
            const auto processor = made(config.processor, config);
            for (const MemorySlab& slab : grouped({4, 8})) processor->process(slab.contents(), kNoProgress, kCurrent);
            die();
        });
        ASSERT_EQ(fate, Outcome::Killed);
    }

    // The relative path of everything below the folder, including the side files of databases.
    static std::vector<std::string> names_in(const std::string& folder) {
        std::vector<std::string> names;
        for (const auto& entry : std::filesystem::recursive_directory_iterator(folder))
            names.push_back(std::filesystem::relative(entry.path(), folder).string());
        return names;
    }

    static std::string refusal_of_preparing(const RunConfig& config) {
        try {
            prepare_run(config);
            return {};
        } catch (const ConfigError& refusal) {
            return refusal.what();
        }
    }

    Tree fresh_run(const std::vector<std::uint64_t>& sizes) const {
        const ScratchFolder folder;
        return run_over(config_for(GetParam(), folder.path()), folder.path(), grouped(sizes));
    }
};

// The producer relies on that declaration, and does not know the plug-ins.
TEST_P(ProcessorContract, LeavesTheResultsItDeclares) {
    if (is_hosted(GetParam())) GTEST_SKIP() << "a custom processor declares nothing";
    const ProcessorResults* const results = ProcessorResults::of(GetParam());
    ASSERT_NE(results, nullptr) << "its file declares no [results]: common/app/settings/declared_setting.hpp";
    if (posts()) GTEST_SKIP() << "posted results are with the receiver";
    const ScratchFolder folder;
    const RunConfig config = config_for(GetParam(), folder.path());
    const Tree originals = results_in(folder.path());
    run_over(config, folder.path(), grouped({4, 8}));
    Tree left = results_in(folder.path());
    std::erase_if(left, [&](const auto& file) {
        return originals.contains(file.first) || !std::filesystem::is_regular_file(folder.path() + "/" + file.first);
    });
    EXPECT_EQ(left.contains(std::string(results->whole)), !results->whole.empty());
    for (const auto& [name, text] : left)
        EXPECT_TRUE(name == results->whole || may_end_result(GetParam(), name)) << name;
    const auto is_of_item = [&](const auto& file) { return file.first != results->whole; };
    EXPECT_EQ(std::any_of(left.begin(), left.end(), is_of_item), results->has_files_of_items());
}

TEST_P(ProcessorContract, ProcessingAgainChangesNothing) {
    const ScratchFolder folder;
    const RunConfig config = config_for(GetParam(), folder.path());
    const auto slabs = grouped({4, 4, 4});
    const Tree once = run_over(config, folder.path(), slabs);
    EXPECT_EQ(!once.empty(), leaves_files());
    EXPECT_EQ(run_over(config, folder.path(), slabs), once);
}

TEST_P(ProcessorContract, SlabsDeliveredTwiceBeforeTheEndChangeNothing) {
    const ScratchFolder folder;
    auto slabs = grouped({4, 4, 4});
    for (MemorySlab& again : grouped({6, 6})) slabs.push_back(std::move(again));
    EXPECT_EQ(run_over(config_for(GetParam(), folder.path()), folder.path(), slabs), fresh_run({4, 4, 4}));
}

// Whichever samples share a slab. Processors of masks and pictures refuse an output whose samples differ in shape; the
// others use it or one beside it.
TEST_P(ProcessorContract, TakesOrRefusesSamplesOfDifferentShapes) {
    const auto results_of = [&](const std::vector<std::uint64_t>& sizes) {
        const ScratchFolder folder;
        std::vector<MemorySlab> slabs;
        for (std::uint64_t first = 0; const std::uint64_t size : sizes) {
            slabs.push_back(make_varying_slab(first, size));
            first += size;
        }
        return run_over(config_for(GetParam(), folder.path()), folder.path(), slabs);
    };
    static const std::set<std::string> refusing{"cut-out", "image", "mask-png", "mask-rle", "overlay"};
    if (refusing.contains(GetParam())) {
        EXPECT_THAT(test::error_of<ConfigError>([&] { results_of({12}); }),
                    testing::HasSubstr("scores float32 [12, ?, 5, 7]: its samples differ in"));
        return;
    }
    const Tree results = results_of({4, 8});
    EXPECT_EQ(results, results_of({12}));
    EXPECT_EQ(!results.empty(), leaves_files());
    if (GetParam() != "npy") return;
    EXPECT_THAT(results.at("folder 0/image\\6.jpg.scores.npy"), ::testing::HasSubstr("'shape': (2, 5, 7)"));
    EXPECT_THAT(results.at("folder 2/image\\8.jpg.scores.npy"), ::testing::HasSubstr("'shape': (0, 5, 7)"));
}

// A processor declares what it appends to (RunOutput): finishing the run closes it, and the next run removes it.
TEST_P(ProcessorContract, LeavesNoLogAndNoSegmentAtTheEnd) {
    const ScratchFolder folder;
    const RunConfig config = config_for(GetParam(), folder.path());
    process_all_and_die(config);
    finish_run(config);
    for (const std::string& name : names_in(folder.path()))
        EXPECT_THAT(name,
                    ::testing::Not(::testing::AnyOf(
                        ::testing::HasSubstr("-wal"), ::testing::HasSubstr("-shm"), ::testing::HasSubstr("-journal"),
                        ::testing::HasSubstr(".offramp-segments"), ::testing::HasSubstr(".offramp-tmp"))));
}

// In a folder of results only the run continues that made them.
TEST_P(ProcessorContract, KeepsEarlierResultsFromAnotherRun) {
    if (!leaves_files() || posts()) return;
    const ScratchFolder folder;
    RunConfig config = config_for(GetParam(), folder.path());
    prepare_run(config);
    process_all(config, grouped({4, 8}));
    for (const Came came : {Came::ToAResult, Came::ToItsEnd}) {
        note_run(config, came);
        finish_run(config);
        const Tree before = read_tree(folder.path());
        for (const bool overwrite : {false, true}) {  // the launcher renames the folder first
            config.overwrite = overwrite;
            EXPECT_THAT(refusal_of_preparing(config),
                        ::testing::AllOf(::testing::HasSubstr("holds the results of an earlier run"),
                                         ::testing::HasSubstr("--resume"), ::testing::HasSubstr("--overwrite")));
        }
        config.overwrite = false;
        config.resume = true;
        EXPECT_EQ(refusal_of_preparing(config), "");
        RunConfig other = config;
        other.processor += ",none";
        EXPECT_THAT(refusal_of_preparing(other), ::testing::HasSubstr("the-run of --processor " + GetParam()));
        EXPECT_EQ(read_tree(folder.path()), before);
        config.resume = false;
    }
}

// A run was killed before its checkpoint.
TEST_P(ProcessorContract, KeepsResultsWithoutACheckpoint) {
    if (!leaves_files() || posts() || names_files_by_key() || GetParam().ends_with("-postgres")) return;
    const ScratchFolder folder;
    RunConfig config = config_for(GetParam(), folder.path());
    run_over(config, folder.path(), grouped({12}));
    const Tree before = read_tree(folder.path());
    for (const auto& [resume, overwrite] : {std::pair(false, false), {true, false}, {false, true}}) {
        config.resume = resume;
        config.overwrite = overwrite;
        EXPECT_THAT(refusal_of_preparing(config), ::testing::HasSubstr("the results of an earlier run"));
    }
    EXPECT_EQ(read_tree(folder.path()), before);
}

TEST_P(ProcessorContract, GroupingChangesNeitherNamesNorBytes) {
    const Tree whole = fresh_run({12});
    if (runs_by_consumer(GetParam()))  // a process each
        EXPECT_EQ(fresh_run({1, 11}), whole);
    else
        EXPECT_EQ(fresh_run({1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}), whole);
    EXPECT_EQ(fresh_run({3, 5, 4}), whole);
    EXPECT_EQ(fresh_run({4, 1, 7}), whole);
}

TEST_P(ProcessorContract, HolesAreSkipped) {
    const Tree tree = fresh_run({12});
    for (const auto& [name, text] : tree) {
        EXPECT_THAT(name, ::testing::Not(::testing::HasSubstr("image\\4.jpg")));
        EXPECT_THAT(text, ::testing::Not(::testing::HasSubstr("image\\4.jpg")));
        if (GetParam().starts_with("records"))
            EXPECT_THAT(text, ::testing::AnyOf("", ::testing::HasSubstr("image\\\\4.jpg\tskipped\t{}")));
        else
            EXPECT_THAT(text, ::testing::Not(::testing::HasSubstr("image\\\\4.jpg")));
    }
    if (leaves_files()) {
        std::size_t mentions = 0;
        for (const auto& [name, text] : tree)
            if (name.find("image\\5.jpg") != std::string::npos || text.find("image\\5.jpg") != std::string::npos ||
                text.find("image\\\\5.jpg") != std::string::npos)
                ++mentions;
        EXPECT_GT(mentions, 0U);
    }
}

TEST_P(ProcessorContract, ProgressIsReportedAtLeastOnceASample) {
    if (runs_by_consumer(GetParam())) GTEST_SKIP() << kSeparateProcess;
    const ScratchFolder folder;
    const RunConfig config = config_for(GetParam(), folder.path());
    std::size_t calls = 0;
    made(GetParam(), config)
        ->process(
            make_slab(6, 5).contents(), [&] { ++calls; }, kCurrent);
    EXPECT_GE(calls, 5U);
}

TEST_P(ProcessorContract, StopsWithoutErrorWhenAnotherHasTakenOver) {
    if (runs_by_consumer(GetParam())) GTEST_SKIP() << kSeparateProcess;
    const ScratchFolder folder;
    const RunConfig config = config_for(GetParam(), folder.path());
    const auto processor = made(GetParam(), config);
    EXPECT_NO_THROW(processor->process(make_slab(0, 12).contents(), kNoProgress, [] { return false; }));
    for (const auto& [name, text] : read_tree(folder.path())) EXPECT_TRUE(text.empty()) << name << " was committed";
    // The processor still works.
    EXPECT_EQ(run_over(config, folder.path(), grouped({12})), fresh_run({12}));
}

TEST_P(ProcessorContract, AnEmptySlabHasNoEffect) {
    if (runs_by_consumer(GetParam())) GTEST_SKIP() << "a dead letter has samples";
    const ScratchFolder folder;
    const RunConfig config = config_for(GetParam(), folder.path());
    SlabContents empty = make_slab(0, 1).contents();
    empty.samples.clear();
    empty.batches.clear();
    for (TensorView& tensor : empty.tensors) {
        tensor.spec = tensor.spec.with_rows(0);
        tensor.bytes = {};
    }
    EXPECT_NO_THROW(made(GetParam(), config)->process(empty, kNoProgress, kCurrent));
    EXPECT_TRUE(read_tree(folder.path()).empty());
}

TEST_P(ProcessorContract, KeysThatLeaveTheOutputFolderAreRefused) {
    // First one of each kind: from the root, upwards, not a text, a folder, a file and a folder of Offramp.
    const std::string keys[] = {"/etc/offramp-hostile",
                                "a/../../hostile",
                                std::string("hos\0tile", 8),
                                "a/..",
                                ".offramp-tmp-1-1",
                                "a/.offramp-segments/x",
                                "../hostile",
                                "a/./hostile",
                                "a//hostile",
                                "hostile/",
                                ".."};
    const std::size_t some = runs_by_consumer(GetParam()) ? 6 : std::size(keys);  // a process each
    for (const std::string& key : std::span(keys).first(some)) {
        const ScratchFolder outside;
        const std::string folder = outside.path() + "/output";
        const RunConfig config = config_for(GetParam(), folder);
        const auto processor = made(GetParam(), config);
        const MemorySlab slab = make_slab(0, 2, key);
        if (names_files_by_key()) {
            EXPECT_THAT(test::error_of([&] { processor->process(slab.contents(), kNoProgress, kCurrent); }),
                        testing::HasSubstr("sample key"))
                << key;
        } else {
            EXPECT_NO_THROW(processor->process(slab.contents(), kNoProgress, kCurrent));
        }
        for (const auto& [name, text] : read_tree(outside.path())) EXPECT_TRUE(name.starts_with("output")) << name;
    }
}

TEST_P(ProcessorContract, AcceptsKeysOfAnyOtherBytes) {
    std::vector<std::string> keys{"...", "-rf", "back\\slash", std::string(200, 'k')};
    // No source of images gives such keys: a broken file name becomes a sound key.
    if (!needs_originals()) keys.insert(keys.end(), {"a b/\xc3\xa4", "line\nfeed"});
    // A consumer in a separate process receives JSON.
    if (!needs_originals() && !runs_by_consumer(GetParam())) keys.emplace_back("\xc3\xa4\xff");
    for (const std::string& key : keys) {
        const ScratchFolder folder;
        const RunConfig config = config_for(GetParam(), folder.path());
        std::vector<MemorySlab> slabs;
        slabs.push_back(make_slab(0, 2, key));
        const Tree tree = run_over(config, folder.path(), slabs);
        if (!names_files_by_key()) continue;
        const bool there =
            std::any_of(tree.begin(), tree.end(), [&](const auto& file) { return file.first.starts_with(key + "."); });
        EXPECT_TRUE(there) << key;
    }
}

TEST_P(ProcessorContract, CutsTheLastPartOfALongKey) {
    if (!names_files_by_key()) GTEST_SKIP() << "keys are not file names here";
    if (needs_originals()) GTEST_SKIP() << "keys come from files here";
    const ScratchFolder folder;
    const RunConfig config = config_for(GetParam(), folder.path());
    std::vector<MemorySlab> slabs;
    slabs.push_back(make_slab(0, 1, "folder/" + std::string(300, 'k')));
    const Tree tree = run_over(config, folder.path(), slabs);
    EXPECT_TRUE(std::ranges::any_of(tree, [](const auto& file) { return file.first.starts_with("folder/kkk"); }));
}

TEST_P(ProcessorContract, RefusesAKeyTooLongForAFolderName) {
    if (!names_files_by_key()) GTEST_SKIP() << "keys are not file names here";
    if (needs_originals()) GTEST_SKIP() << "keys come from files here";
    const ScratchFolder folder;
    const RunConfig config = config_for(GetParam(), folder.path());
    try {
        made(GetParam(), config)
            ->process(make_slab(0, 1, std::string(1000, 'k') + "/a").contents(), kNoProgress, kCurrent);
        FAIL();
    } catch (const Error& error) {
        EXPECT_EQ(error.kind(), ErrorKind::CannotWrite);
    }
    EXPECT_TRUE(read_tree(folder.path()).empty()) << "a temporary file was left";
}

TEST_P(ProcessorContract, ReportsAtTheStartThatItsFolderCannotBeMade) {
    if (runs_by_consumer(GetParam())) GTEST_SKIP() << kSeparateProcess;
    if (!leaves_files() || posts()) GTEST_SKIP() << "writes nothing";
    const RunConfig config = config_for(GetParam(), "/proc/offramp/output");
    EXPECT_THAT(test::error_of([&] { made(GetParam(), config); }, ErrorKind::CannotWrite),
                testing::HasSubstr("/proc/offramp"));
}

INSTANTIATE_TEST_SUITE_P(All, ProcessorContract, ::testing::ValuesIn(names_of_all()),
                         [](const auto& param_info) { return word_for(param_info.param); });
INSTANTIATE_TEST_SUITE_P(Hosted, ProcessorContract, ::testing::ValuesIn(names_of_hosted()),
                         [](const auto& param_info) { return word_for(param_info.param); });

// The same results, written in three ways.
TEST(HostedProcessors, LeaveTheSame) {
    std::vector<MemorySlab> slabs;
    slabs.push_back(make_slab(0, 12));
    std::vector<Tree> left;
    for (const std::string& name : names_of_hosted()) {
        if (!missing_requirement(name).empty()) continue;
        const ScratchFolder folder;
        left.push_back(run_over(config_for(name, folder.path()), folder.path(), slabs));
        EXPECT_EQ(left.back(), left.front()) << name;
    }
    EXPECT_GE(left.size(), 2U);
    EXPECT_GT(left.front().size(), kItems) << "a file per sample except the empty row, their folder, and records.jsonl";
}

TEST(ProcessorTable, HasTheFilesOfThePluginsFolder) {
    EXPECT_THAT(names_of_all(),
                ::testing::IsSupersetOf({"none", "write", "checksum", "mask-png", "cut-out", "overlay"}));
}

TEST(ProcessorTable, UnknownNamesAreRefusedWithTheKnownOnes) {
    const RunConfig config;
    for (const std::string name : {"", "mask_png"}) {
        EXPECT_THAT(test::error_of<ConfigError>([&] { made(name, config); }),
                    testing::AllOf(testing::HasSubstr("'" + name + "'"), testing::HasSubstr("mask-png")))
            << name;
    }
}

// Several processors in one run, each with its own folder.
TEST(SeveralProcessors, EachLeavesInItsFolderWhatItLeavesAlone) {
    const std::vector<std::string> names{"mask-png", "cut-out", "checksum"};
    std::vector<MemorySlab> slabs;
    slabs.push_back(make_slab(0, 12));
    Tree wanted;
    for (const std::string& name : names) {
        const ScratchFolder folder;
        wanted[name] = "";
        for (const auto& [file, text] : run_over(config_for(name, folder.path()), folder.path(), slabs))
            wanted[name + "/" + file] = text;
    }
    const ScratchFolder folder;
    const RunConfig config = config_for("mask-png,cut-out,checksum", folder.path());
    EXPECT_EQ(run_over(config, folder.path(), slabs), wanted);
    EXPECT_EQ(run_over(config, folder.path(), slabs), wanted) << "done again";
}

TEST(SeveralProcessors, AFileOfTheUsersWhereResultsGoIsRefused) {
    for (const auto& [processor, name] : {std::pair("checksum", "checksums.tsv"), std::pair("mask-rle", "masks.jsonl"),
                                          std::pair("embeddings-parquet", "embeddings.parquet")}) {
        for (const std::string text : {"precious\n", "1\t2\n", "{\"item\":\"a\"}\n", "PAR1 0000PAR1"}) {
            const ScratchFolder folder;
            RunConfig config = config_for(processor, folder.path());
            config.overwrite = true;
            std::ofstream(folder.path() + "/" + name) << text;
            EXPECT_THROW(prepare_run(config), ConfigError) << name;
            EXPECT_EQ(read_tree(folder.path()), (Tree{{name, text}}));
        }
    }
}

TEST(SeveralProcessors, TemporaryFilesAreRemovedAlsoWithoutAnOutputFolder) {
    const ScratchFolder folder;
    std::ofstream(folder.path() + "/.offramp-tmp-1-1") << "half";
    RunConfig config;
    config.processor = "none,write";
    config.catalogue.put("write-path", folder.path());
    finish_run(config);
    EXPECT_TRUE(read_tree(folder.path()).empty());
}

TEST(SeveralProcessors, NamesThatAreWrongAreRefused) {
    const ScratchFolder folder;
    for (const std::string names : {"mask-png,mask_png", "mask-png,mask-png", "mask-png,", ","}) {
        const RunConfig config = config_for(names, folder.path());
        EXPECT_THROW(make_processor(names, config), ConfigError) << names;
    }
}

}  // namespace
}  // namespace offramp::test
