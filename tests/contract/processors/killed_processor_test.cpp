// A consumer may be killed at any point; the next one leaves the results of an undisturbed one.
#include <gmock/gmock.h>

#include <algorithm>

#include "consumer/processors/results/outputs_of_run.hpp"
#include "tests/contract/processors/killed_child.hpp"
#include "tests/contract/processors/processor_world.hpp"
#include "tests/support/kill_points.hpp"

namespace offramp::test {
namespace {

class KilledProcessor : public ::testing::TestWithParam<std::string> {
  protected:
    void SetUp() override {
        if (const std::string missing = missing_requirement(GetParam()); !missing.empty()) GTEST_SKIP() << missing;
        if (runs_by_consumer(GetParam())) GTEST_SKIP() << "crash.python_consumers kills those in Python";
    }

    std::vector<MemorySlab> slabs() const {
        std::vector<MemorySlab> both;
        both.push_back(make_slab(3, 2));
        both.push_back(make_slab(5, 1));
        return both;
    }

    Tree undisturbed() const {
        const ScratchFolder folder(ScratchFolder::On::Memory);
        return run_over(config_for(GetParam(), folder.path()), folder.path(), slabs());
    }
};

TEST_P(KilledProcessor, AtEveryProgress) {
    const Tree wanted = undisturbed();
    const auto given = slabs();
    Outcome fate = Outcome::Killed;
    int n = 1;
    for (; fate == Outcome::Killed && n < 1000; n += kill_one_in()) {
        const ScratchFolder folder(ScratchFolder::On::Memory);
        const RunConfig config = config_for(GetParam(), folder.path());
        fate = killed_at_call(n, [&](const Progress& progress) {
            const auto processor = made(GetParam(), config);
            for (const MemorySlab& slab : given) processor->process(slab.contents(), progress, kCurrent);
        });
        EXPECT_EQ(run_over(config, folder.path(), given), wanted) << "killed at progress " << n;
    }
    EXPECT_EQ(fate, Outcome::Finished);
    EXPECT_GT(n, 3);
}

TEST_P(KilledProcessor, AtEverySystemCallOfProcessingAndFinishing) {
    // One slab: every step is traced, and the number of runs grows with the number of steps.
    std::vector<MemorySlab> given;
    given.push_back(make_slab(3, 3));
    const ScratchFolder calm(ScratchFolder::On::Memory);
    const Tree wanted = run_over(config_for(GetParam(), calm.path()), calm.path(), given);
    std::optional<Outcome> fate = Outcome::Killed;
    int n = 1;
    for (; fate == Outcome::Killed && n < 5000; n += kill_one_in()) {
        const ScratchFolder folder(ScratchFolder::On::Memory);
        const RunConfig config = config_for(GetParam(), folder.path());
        fate = killed_at_syscall(n, [&] { run_over(config, folder.path(), given); });
        if (!fate) GTEST_SKIP() << "this machine does not let a process trace its child";
        EXPECT_EQ(run_over(config, folder.path(), given), wanted) << "killed at system call " << n;
    }
    EXPECT_EQ(fate, Outcome::Finished);
    EXPECT_GT(n, wanted.empty() ? 1 : 20) << "it is killed during the work";
}

TEST_P(KilledProcessor, AtEverySystemCallOfFinishingAlone) {
    const Tree wanted = undisturbed();
    const auto given = slabs();
    std::optional<Outcome> fate = Outcome::Killed;
    int n = 1;
    for (; fate == Outcome::Killed && n < 5000; n += kill_one_in()) {
        const ScratchFolder folder(ScratchFolder::On::Memory);
        const RunConfig config = config_for(GetParam(), folder.path());
        process_all(config, given);
        fate = killed_at_syscall(n, [&] { finish_run(config); });
        if (!fate) GTEST_SKIP() << "this machine does not let a process trace its child";
        finish_run(config);
        EXPECT_EQ(read_tree(folder.path()), wanted) << "killed at system call " << n;
    }
    EXPECT_EQ(fate, Outcome::Finished);
}

INSTANTIATE_TEST_SUITE_P(All, KilledProcessor, ::testing::ValuesIn(names_of_all()),
                         [](const auto& param_info) { return word_for(param_info.param); });
INSTANTIATE_TEST_SUITE_P(Hosted, KilledProcessor, ::testing::ValuesIn(names_of_hosted()),
                         [](const auto& param_info) { return word_for(param_info.param); });

}  // namespace
}  // namespace offramp::test
