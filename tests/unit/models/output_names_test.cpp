#include "producer/runner/models/network_file.hpp"

#include <gmock/gmock.h>
#include <rapidcheck/gtest.h>

#include <set>

namespace offramp {
namespace {

using ::testing::ElementsAre;

TEST(OutputNames, AreSimplifiedAndKeptWhereUnique) {
    EXPECT_THAT(distinct_output_names({"out", "aux.out", "a/b c"}), ElementsAre("out", "aux.out", "a_b_c"));
    EXPECT_EQ(distinct_output_names({std::string(80, 'x')})[0].size(), kMaxTensorName);
}

TEST(OutputNames, ATakenNameGetsItsPosition) {
    EXPECT_THAT(distinct_output_names({"out", "out", "out"}), ElementsAre("out", "out-1", "out-2"));
}

TEST(OutputNames, TheNewNameIsUnused) {
    EXPECT_THAT(distinct_output_names({"a_b-2", "a_b", "a/b"}), ElementsAre("a_b-2", "a_b", "a_b-3"));
    EXPECT_THAT(distinct_output_names({"a", "a", "a-1"}), ElementsAre("a", "a-2", "a-1"));
}

RC_GTEST_PROP(OutputNames, AnyNamesBecomeDistinctAndShort, ()) {
    const auto name = rc::gen::container<std::string>(rc::gen::elementOf(std::string("a-12/")));
    std::vector<std::string> names = *rc::gen::container<std::vector<std::string>>(name);
    if (names.size() > 16) names.resize(16);
    for (std::string& each : names) each += std::string(*rc::gen::inRange(0, 2) * 70, 'x');
    const auto distinct = distinct_output_names(names);
    RC_ASSERT(std::set(distinct.begin(), distinct.end()).size() == names.size());
    for (const std::string& each : distinct) RC_ASSERT(each.size() <= kMaxTensorName);
}

}  // namespace
}  // namespace offramp
