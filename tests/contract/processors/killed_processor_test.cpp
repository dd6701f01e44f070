// A consumer may be killed at any point; what the next one leaves is what an undisturbed one leaves.
#include <gmock/gmock.h>

#include <algorithm>

#include "consumer/processors/finish.hpp"
#include "tests/contract/processors/killed_child.hpp"
#include "tests/contract/processors/processor_world.hpp"

namespace offramp::test {
namespace {

class KilledProcessor : public ::testing::TestWithParam<std::string> {
  protected:
    void SetUp() override {
        if (GetParam() == "embeddings-parquet" && OFFRAMP_HAS_PARQUET == 0) GTEST_SKIP() << "built without pyarrow";
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
    Fate fate = Fate::Killed;
    int n = 1;
    for (; fate == Fate::Killed && n < 1000; ++n) {
        const ScratchFolder folder(ScratchFolder::On::Memory);
        const RunConfig config = config_for(GetParam(), folder.path());
        fate = killed_at_call(n, [&](const Progress& progress) {
            const auto processor = make_processor(GetParam(), {&config});
            for (const MemorySlab& slab : given) processor->process(slab.contents(), progress, kCurrent);
        });
        EXPECT_EQ(run_over(config, folder.path(), given), wanted) << "killed at progress " << n;
    }
    EXPECT_EQ(fate, Fate::Finished);
    EXPECT_GT(n, 3);
}

TEST_P(KilledProcessor, AtEverySystemCallOfProcessingAndOfFinishing) {
    // One slab: every step is traced, and the number of runs grows with the number of steps.
    std::vector<MemorySlab> given;
    given.push_back(make_slab(3, 3));
    const ScratchFolder calm(ScratchFolder::On::Memory);
    const Tree wanted = run_over(config_for(GetParam(), calm.path()), calm.path(), given);
    std::optional<Fate> fate = Fate::Killed;
    int n = 1;
    for (; fate == Fate::Killed && n < 5000; ++n) {
        const ScratchFolder folder(ScratchFolder::On::Memory);
        const RunConfig config = config_for(GetParam(), folder.path());
        fate = killed_at_syscall(n, [&] { run_over(config, folder.path(), given); });
        if (!fate) GTEST_SKIP() << "this machine does not let a process trace its child";
        EXPECT_EQ(run_over(config, folder.path(), given), wanted) << "killed at system call " << n;
    }
    EXPECT_EQ(fate, Fate::Finished);
    EXPECT_GT(n, wanted.empty() ? 1 : 20) << "kills in the midst of the work";
}

TEST_P(KilledProcessor, AtEverySystemCallOfFinishingAlone) {
    const Tree wanted = undisturbed();
    const auto given = slabs();
    std::optional<Fate> fate = Fate::Killed;
    int n = 1;
    for (; fate == Fate::Killed && n < 5000; ++n) {
        const ScratchFolder folder(ScratchFolder::On::Memory);
        const RunConfig config = config_for(GetParam(), folder.path());
        process_all(config, given);
        fate = killed_at_syscall(n, [&] { finish_run(config); });
        if (!fate) GTEST_SKIP() << "this machine does not let a process trace its child";
        finish_run(config);
        EXPECT_EQ(read_tree(folder.path()), wanted) << "killed at system call " << n;
    }
    EXPECT_EQ(fate, Fate::Finished);
}

std::vector<std::string> all_names() {
    std::vector<std::string> names;
    for (const ProcessorEntry& entry : ProcessorEntry::all()) names.emplace_back(entry.name);
    return names;
}

INSTANTIATE_TEST_SUITE_P(All, KilledProcessor, ::testing::ValuesIn(all_names()), [](const auto& param_info) {
    std::string name = param_info.param;
    std::replace(name.begin(), name.end(), '-', '_');
    return name;
});

}  // namespace
}  // namespace offramp::test
