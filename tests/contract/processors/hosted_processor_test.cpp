// The layer between custom code and Offramp's sinks: a C struct that this test implements.
#include "consumer/hosts/hosted_processor.hpp"

#include <gmock/gmock.h>
#include <offramp_processor.h>

#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>

#include "common/base/error.hpp"
#include "consumer/hosts/executable.hpp"
#include "consumer/session/slab_processor.hpp"
#include "tests/contract/processors/processor_world.hpp"
#include "tests/support/error_of.hpp"

namespace offramp::test {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Pair;

// The return codes of `process` and `create`.
struct Code {
    std::function<std::int32_t(const offramp_host& host, const offramp_slab& slab)> process;
    std::int32_t created = OFFRAMP_OK;
    int destroyed = 0;
};

Code* code_of_test = nullptr;

constexpr offramp_processor kTestsOwn{
    .size = sizeof kTestsOwn,
    .create = [](const offramp_host* host, const offramp_processor_options*, void** self) -> std::int32_t {
        if (code_of_test->created != OFFRAMP_OK) host->explain(host, "the server is away");
        *self = code_of_test;
        return code_of_test->created;
    },
    .process = [](void* self, const offramp_host* host, const offramp_slab* slab) -> std::int32_t {
        return static_cast<Code*>(self)->process(*host, *slab);
    },
    .destroy = [](void* self) { ++static_cast<Code*>(self)->destroyed; }};

class Hosted : public ::testing::Test {
  protected:
    Hosted() { code_of_test = &code_; }

    HostedOptions options() const {
        return {.name = "so:./own.so",
                .output = folder_.path(),
                .shared_output = folder_.path(),
                .durability = Durability::Process,
                .options = {}};
    }

    // Passes one slab of two samples through a processor with this code.
    void process(std::function<std::int32_t(const offramp_host& host, const offramp_slab& slab)> code,
                 const StillCurrent& current = kCurrent, std::uint64_t first = 0) {
        code_.process = std::move(code);
        HostedProcessor(kTestsOwn, options()).process(make_slab(first, 2).contents(), kNoProgress, current);
    }

    // Lines of records, in segments of an unfinished run.
    bool has_records() const {
        for (const auto& [name, text] : read_tree(folder_.path()))
            if (name.find(".offramp-segments") != std::string::npos && !text.empty()) return true;
        return false;
    }

    const ScratchFolder folder_;
    Code code_;
};

std::int32_t record(const offramp_host& host, std::uint32_t sample, const std::string& json) {
    return host.commit_record(&host, sample, json.data(), json.size());
}

TEST_F(Hosted, TakesSamplesOfDifferentShapesOnlyIfItSaysSo) {
    code_.process = [](const offramp_host&, const offramp_slab&) { return OFFRAMP_OK; };
    const MemorySlab slab = make_varying_slab(0, 2);
    const auto expect_refused = [&](const offramp_processor& code, const HostedOptions& made_with) {
        EXPECT_THAT(test::error_of<ConfigError>(
                        [&] { HostedProcessor(code, made_with).process(slab.contents(), kNoProgress, kCurrent); }),
                    HasSubstr("does not take samples of different shapes: output scores float32"));
    };
    offramp_processor code = kTestsOwn;
    expect_refused(code, options());
    code.takes_variable = 1;
    HostedProcessor(code, options()).process(slab.contents(), kNoProgress, kCurrent);
    code.size = offsetof(offramp_processor, takes_variable);  // compiled before the field existed
    expect_refused(code, options());

    HostedOptions program = options();
    program.name = R"(exec:echo '{"offramp": 1}')";
    program.takes_variable = executable_takes_variable;
    expect_refused(executable_processor(), program);
}

TEST_F(Hosted, MapsEachCodeToAnOutcomeAndText) {
    const auto ends_with = [](std::int32_t code) {
        return [code](const offramp_host& host, const offramp_slab&) {
            EXPECT_EQ(record(host, 0, "{}"), OFFRAMP_OK);
            host.explain(&host, "no pixel");
            return code;
        };
    };
    EXPECT_NO_THROW(process(ends_with(OFFRAMP_OK)));
    EXPECT_TRUE(has_records());
    const std::pair<std::int32_t, ReleaseKind> counted[] = {{OFFRAMP_FAILED, ReleaseKind::Failed},
                                                            {OFFRAMP_REJECTED, ReleaseKind::Rejected},
                                                            {OFFRAMP_INTERNAL, ReleaseKind::Failed},
                                                            {123456, ReleaseKind::Failed}};
    for (const auto& [code, kind] : counted) {
        try {
            process(ends_with(code));
            ADD_FAILURE() << code;
        } catch (const SlabFailed& failed) {
            EXPECT_EQ(failed.release(), kind) << code;
            EXPECT_THAT(failed.what(), HasSubstr("no pixel"));
        }
    }
    try {
        process(ends_with(OFFRAMP_RETRY));
        ADD_FAILURE();
    } catch (const SlabFailed&) {
        ADD_FAILURE() << "it is counted";
    } catch (const Error& away) {
        EXPECT_EQ(away.kind(), ErrorKind::SinkUnavailable);
        EXPECT_THAT(away.what(), AllOf(HasSubstr("so:./own.so"), HasSubstr("no pixel")));
    }
}

TEST_F(Hosted, RecordsOfASlabThatFailsAreNotCommitted) {
    EXPECT_THROW(process([](const offramp_host& host, const offramp_slab&) {
                     EXPECT_EQ(record(host, 0, "{}"), OFFRAMP_OK);
                     return OFFRAMP_FAILED;
                 }),
                 SlabFailed);
    EXPECT_FALSE(has_records());
}

// Even if the code ignores the result of a commit.
TEST_F(Hosted, RefusesInvalidCommitsAndChargesTheSlab) {
    const auto file = [](std::uint32_t sample, const char* ending) {
        return [=](const offramp_host& host) { return host.commit_file(&host, sample, ending, "x", 1); };
    };
    const auto line = [](std::uint32_t sample, const std::string& json) {
        return [=](const offramp_host& host) { return record(host, sample, json); };
    };
    const std::pair<std::function<std::int32_t(const offramp_host&)>, const char*> cases[] = {
        {file(2, ".x"), "no sample 2"},
        {file(0, "png"), "ends with 'png'"},
        {file(0, nullptr), "ends with ''"},
        {file(0, "./../../x"), "ends with './../../x'"},
        {line(7, "{}"), "no sample 7"},
        {line(0, "[1]"), "is not a JSON object"},
        {line(0, "{\"x\": "), "is not a JSON object"},
        {line(0, "{\"item\": 5}"), "has a field 'item'"},
        {line(0, "{\"key\": \"k\"}"), "has a field 'key'"}};
    for (const auto& [commit, why] : cases) {
        try {
            process([&commit = commit](const offramp_host& host, const offramp_slab&) {
                EXPECT_EQ(commit(host), OFFRAMP_BAD_ARGUMENT);
                return OFFRAMP_OK;
            });
            ADD_FAILURE() << why;
        } catch (const SlabFailed& failed) {
            EXPECT_THAT(failed.what(), HasSubstr(why));
        }
        EXPECT_TRUE(results_in(folder_.path()).empty()) << why;
    }
}

// The next delivery writes it again.
TEST_F(Hosted, RefusesASecondCommitOfANameAndKeepsTheFirst) {
    const auto twice = [](std::uint32_t sample, const char* ending) {
        return [=](const offramp_host& host, const offramp_slab&) {
            EXPECT_EQ(host.commit_file(&host, 0, ".b.x", "first", 5), OFFRAMP_OK);
            EXPECT_EQ(host.commit_file(&host, 0, ".c.x", "other", 5), OFFRAMP_OK);
            return host.commit_file(&host, sample, ending, "second", 6);
        };
    };
    HostedProcessor processor(kTestsOwn, options());
    for (int delivery = 0; delivery < 2; ++delivery) {
        code_.process = twice(0, ".b.x");
        EXPECT_THAT(test::error_of<SlabFailed>(
                        [&] { processor.process(make_slab(0, 1, "a").contents(), kNoProgress, kCurrent); }),
                    AllOf(HasSubstr(".b.x"), HasSubstr("committed twice"), HasSubstr("its own ending")));
        EXPECT_THAT(results_in(folder_.path()), Contains(Pair(HasSubstr(".b.x"), "first")));
        code_.process = twice(0, ".d.x");
        EXPECT_NO_THROW(processor.process(make_slab(0, 1, "a").contents(), kNoProgress, kCurrent));
    }
}

// Where a program allows keys to be repeated.
TEST_F(Hosted, ALaterSampleWithTheSameKeyReplacesTheFile) {
    const auto slab = make_slab(0, 2, "a");
    SlabContents contents = slab.contents();
    contents.samples[1].key = contents.samples[0].key;
    code_.process = [](const offramp_host& host, const offramp_slab&) {
        EXPECT_EQ(host.commit_file(&host, 0, ".x", "first", 5), OFFRAMP_OK);
        return host.commit_file(&host, 1, ".x", "second", 6);
    };
    HostedProcessor processor(kTestsOwn, options());
    EXPECT_NO_THROW(processor.process(contents, kNoProgress, kCurrent));
    EXPECT_THAT(results_in(folder_.path()), ElementsAre(Pair(HasSubstr(".x"), "second")));
}

TEST_F(Hosted, AHoleIsReportedAndHasNoResult) {
    EXPECT_THAT(test::error_of<SlabFailed>([&] {
                    process(
                        [](const offramp_host& host, const offramp_slab& slab) {
                            EXPECT_EQ(slab.samples[0].empty, 1U);
                            EXPECT_EQ(slab.samples[1].empty, 0U);
                            EXPECT_EQ(host.commit_file(&host, 0, ".x", "x", 1), OFFRAMP_BAD_ARGUMENT);
                            return OFFRAMP_OK;
                        },
                        kCurrent, kEmptyRow);
                }),
                HasSubstr("could not be read"));
}

// A sink's failure is the run's and not the slab's, whatever the custom code returns.
TEST_F(Hosted, DoesNotChargeTheSlabForAnUnwritableFile) {
    std::ofstream(folder_.path() + "/in-the-way") << "a file in the place of a folder";
    code_.process = [](const offramp_host& host, const offramp_slab&) {
        EXPECT_EQ(host.commit_file(&host, 0, ".x", "x", 1), OFFRAMP_CANNOT_WRITE);
        return OFFRAMP_OK;
    };
    try {
        HostedProcessor(kTestsOwn, options())
            .process(make_slab(0, 1, "in-the-way/a").contents(), kNoProgress, kCurrent);
        FAIL();
    } catch (const SlabFailed&) {
        FAIL() << "it is counted";
    } catch (const Error& problem) {
        EXPECT_EQ(problem.kind(), ErrorKind::CannotWrite);
    }
}

TEST_F(Hosted, CommitsNothingOfALateConsumer) {
    const StillCurrent late = [] { return false; };
    EXPECT_NO_THROW(process(
        [](const offramp_host& host, const offramp_slab&) {
            EXPECT_EQ(host.still_current(&host), 0);
            EXPECT_EQ(host.commit_file(&host, 0, ".x", "x", 1), OFFRAMP_OK);
            return record(host, 0, "{}");
        },
        late));
    EXPECT_TRUE(results_in(folder_.path()).empty());
    EXPECT_FALSE(has_records());
    process([](const offramp_host& host, const offramp_slab&) {
        EXPECT_EQ(host.still_current(&host), 1);
        return host.commit_file(&host, 0, ".x", "x", 1);
    });
    EXPECT_TRUE(results_in(folder_.path()).contains(key_of(0) + ".x"));
}

TEST_F(Hosted, SeesSeveralTensorsInPlace) {
    const MemorySlab slab = make_slab(5, 3);
    const SlabContents contents = slab.contents();
    code_.process = [&](const offramp_host&, const offramp_slab& seen) {
        EXPECT_EQ(seen.tensor_count, contents.tensors.size());
        EXPECT_EQ(seen.sample_count, 3U);
        for (std::uint32_t t = 0; t < seen.tensor_count; ++t) {
            const offramp_tensor& tensor = seen.tensors[t];
            const TensorView& wanted = contents.tensors[t];
            EXPECT_EQ(tensor.name, wanted.spec.name);
            EXPECT_EQ(static_cast<const void*>(tensor.data), wanted.bytes.data());
            std::size_t bytes = tensor.dtype.bits / 8;
            for (std::uint32_t dim = 0; dim < tensor.dims; ++dim) bytes *= static_cast<std::size_t>(tensor.shape[dim]);
            EXPECT_EQ(bytes, wanted.bytes.size());
        }
        for (std::uint32_t i = 0; i < seen.sample_count; ++i) {
            EXPECT_EQ(seen.samples[i].item, 5 + i);
            EXPECT_EQ(std::string(seen.samples[i].key, seen.samples[i].key_bytes), key_of(5 + i));
        }
        return OFFRAMP_OK;
    };
    EXPECT_GT(contents.tensors.size(), 1U);
    HostedProcessor(kTestsOwn, options()).process(contents, kNoProgress, kCurrent);
}

TEST_F(Hosted, ReportsWhyCreateFailedAndDestroysOnlyCreatedOnes) {
    for (const auto& [code, kind] :
         {std::pair(OFFRAMP_BAD_ARGUMENT, ErrorKind::Usage), std::pair(OFFRAMP_RETRY, ErrorKind::SinkUnavailable)}) {
        code_.created = code;
        EXPECT_THAT(test::error_of([&] { const HostedProcessor never(kTestsOwn, options()); }, kind),
                    AllOf(HasSubstr("so:./own.so"), HasSubstr("the server is away")))
            << code;
    }
    code_.created = OFFRAMP_OK;
    HostedProcessor::check(kTestsOwn, options());
    EXPECT_EQ(code_.destroyed, 0) << "nothing is created before a run";
    { const HostedProcessor made(kTestsOwn, options()); }
    EXPECT_EQ(code_.destroyed, 1);
}

}  // namespace
}  // namespace offramp::test
