#include "consumer/processors/results/own_run.hpp"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "common/base/error.hpp"
#include "consumer/processors/results/outputs_of_run.hpp"
#include "tests/contract/processors/processor_world.hpp"
#include "tests/support/error_of.hpp"

namespace offramp {
namespace {

using test::ScratchFolder;
using test::Tree;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

// An output folder, and successive runs of a custom program whose consumers use it.
class OwnRun : public ::testing::Test {
  protected:
    enum class Wish { Nothing, Resume, Overwrite };

    RunConfig config(const std::string& run, Wish wish = Wish::Nothing) const {
        RunConfig config = test::config_for(processor_, folder_.path());
        config.run_id = run;
        config.resume = wish == Wish::Resume;
        config.overwrite = wish == Wish::Overwrite;
        return config;
    }
    void prepare(const std::string& run, Wish wish = Wish::Nothing) const {
        prepare_own_run(config(run, wish), run + "-00aa");
    }
    std::string refusal(const std::string& run, Wish wish = Wish::Nothing) const {
        return test::error_of<ConfigError>([&] { prepare(run, wish); }, ErrorKind::Usage);
    }
    // Consumers of `run` write results of two items, and end.
    void serve(const std::string& run, std::uint64_t first_item) const {
        std::vector<test::MemorySlab> slabs;
        slabs.push_back(test::make_slab(first_item, 2));
        test::process_all(config(run), slabs);
    }
    void finish(const std::string& run, OwnRunEnd end) const { finish_own_run(config(run), end); }
    void whole_run(const std::string& run, std::uint64_t first_item, Wish wish = Wish::Nothing) const {
        prepare(run, wish);
        serve(run, first_item);
        finish(run, OwnRunEnd::Ended);
    }
    Tree results() const { return test::results_in(folder_.path()); }
    // The results of runs from these first items, in a separate folder.
    Tree results_of(const std::vector<std::uint64_t>& first_items) const {
        const ScratchFolder another(ScratchFolder::On::Memory);
        std::vector<test::MemorySlab> slabs;
        for (const std::uint64_t first : first_items) slabs.push_back(test::make_slab(first, 2));
        test::run_over(test::config_for(processor_, another.path()), another.path(), slabs);
        return test::results_in(another.path());
    }
    bool is_noted() const { return std::filesystem::exists(folder_.path() + "/.offramp-own-run"); }

    std::string processor_ = "checksum";
    const ScratchFolder folder_{ScratchFolder::On::Memory};
};

TEST_F(OwnRun, RecordsItsEndInANamedCheckpoint) {
    prepare("first");
    EXPECT_TRUE(is_noted());
    serve("first", 0);
    EXPECT_FALSE(read_previous_run(folder_.path())) << "only the program knows the done items";
    finish("first", OwnRunEnd::Ended);
    EXPECT_EQ(results(), results_of({0}));
    const auto previous = read_previous_run(folder_.path());
    ASSERT_TRUE(previous);
    EXPECT_TRUE(previous->of_own_program && previous->ended);
    EXPECT_EQ(previous->run_id, "first");
    EXPECT_EQ(previous->processors, std::vector<std::string>{"checksum"});
    EXPECT_FALSE(is_noted()) << "it names a finished run";
}

TEST_F(OwnRun, WritesNothingWithoutAnOutput) {
    RunConfig config;
    config.processor = "checksum";
    EXPECT_NO_THROW(prepare_own_run(config, "first-00aa"));
    EXPECT_NO_THROW(finish_own_run(config, OwnRunEnd::Ended));
}

TEST_F(OwnRun, ConsumersThatReturnToTheSameRunContinue) {
    prepare("first");
    serve("first", 0);
    finish("first", OwnRunEnd::Unfinished);
    EXPECT_FALSE(read_previous_run(folder_.path())->ended);
    prepare("first");
    serve("first", 6);
    finish("first", OwnRunEnd::Ended);
    EXPECT_EQ(results(), results_of({0, 6}));
}

TEST_F(OwnRun, ALaterRunOfTheSameNameIsAnother) {
    prepare("first");
    serve("first", 0);
    finish("first", OwnRunEnd::Unfinished);
    const Tree before = test::read_tree(folder_.path());
    EXPECT_THROW(prepare_own_run(config("first"), "first-00bb"), ConfigError);
    EXPECT_EQ(test::read_tree(folder_.path()), before);
}

TEST_F(OwnRun, AForgottenRunIsAnother) {
    prepare("first");
    serve("first", 0);
    finish("first", OwnRunEnd::Unfinished);
    forget_own_run(folder_.path());
    EXPECT_THAT(refusal("first"), HasSubstr("holds the results of an earlier run"));
}

TEST_F(OwnRun, DoesNotFollowALinkInsteadOfItsNote) {
    prepare("first");
    serve("first", 0);
    finish("first", OwnRunEnd::Unfinished);
    const std::string note = folder_.path() + "/.offramp-own-run";
    std::filesystem::rename(note, folder_.path() + "/moved");
    std::filesystem::create_symlink("moved", note);
    EXPECT_THAT(refusal("first"), HasSubstr("--overwrite"));
}

TEST_F(OwnRun, LeavesNoCheckpointWithoutResults) {
    prepare("first");
    finish("first", OwnRunEnd::Nothing);
    EXPECT_FALSE(has_checkpoint(folder_.path()));
    EXPECT_TRUE(is_noted()) << "consumers may return to it";
    EXPECT_THAT(results(), IsEmpty());
    whole_run("second", 0);
    EXPECT_EQ(results(), results_of({0}));
}

TEST_F(OwnRun, KeepsAFinishedRunsResultsUnlessAsked) {
    whole_run("first", 0);
    const Tree before = test::read_tree(folder_.path());
    for (const Wish wish : {Wish::Nothing, Wish::Overwrite})  // the launcher renames the folder first
        EXPECT_THAT(refusal("second", wish), AllOf(HasSubstr("holds the results of an earlier run"),
                                                   HasSubstr("--overwrite"), Not(HasSubstr("--resume"))));
    EXPECT_THAT(refusal("second", Wish::Resume), AllOf(HasSubstr("checksums.tsv cannot be added to"),
                                                       HasSubstr("by item number"), HasSubstr("--overwrite")));
    EXPECT_EQ(test::read_tree(folder_.path()), before);
}

TEST_F(OwnRun, AddsToNumberedResultsWhereNumbersContinue) {
    whole_run("first", 0);
    prepare_own_run(config("second", Wish::Resume), "second-00aa", ItemNumbers::Continue);
    serve("second", 6);
    finish("second", OwnRunEnd::Ended);
    EXPECT_EQ(results(), results_of({0, 6}));
}

TEST_F(OwnRun, AddsToKeyedResultsWhenAsked) {
    processor_ = "embeddings-sqlite";
    whole_run("first", 0);
    EXPECT_THAT(refusal("second"), AllOf(HasSubstr("--resume to add"), HasSubstr("--overwrite")));
    whole_run("second", 6, Wish::Resume);
    EXPECT_EQ(results(), results_of({0, 6}));
    EXPECT_EQ(read_previous_run(folder_.path())->run_id, "second");
}

TEST_F(OwnRun, DoesNotAddToResultsOfALaunchersRun) {
    std::vector<test::MemorySlab> slabs;
    slabs.push_back(test::make_slab(0, 2));
    test::note_run(config("before"), test::Came::ToAResult);
    test::process_all(config("before"), slabs);
    const Tree before = test::read_tree(folder_.path());
    EXPECT_THAT(refusal("first"), HasSubstr("another --output"));
    EXPECT_THAT(refusal("first", Wish::Resume),
                AllOf(HasSubstr("which is not a run of a custom program"), HasSubstr("another --output")));
    EXPECT_EQ(test::read_tree(folder_.path()), before);
}

}  // namespace
}  // namespace offramp
