#include "consumer/sinks/opened_library.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/base/error.hpp"

namespace offramp::test {
namespace {

using testing::HasSubstr;

std::string refusal(const std::vector<std::string>& names, const char* call) {
    try {
        const OpenedLibrary library(names, "--processor shout", "apt-get install libshout");
        std::size_t (*length)(const char*) = nullptr;
        library.find(length, call);
        return "length " + std::to_string(length("four"));
    } catch (const ConfigError& error) {
        return error.what();
    }
}

TEST(OpenedLibrary, OpensTheFirstThatExists) {
    EXPECT_EQ(refusal({"libnowhere.so.7", "libc.so.6"}, "strlen"), "length 4");
}

TEST(OpenedLibrary, ReportsTheNeedAndTheRemedyWithoutAny) {
    const std::string text = refusal({"libnowhere.so.7", "libnowhere-other.so.7"}, "strlen");
    EXPECT_THAT(text, HasSubstr("--processor shout needs a library that cannot be opened: libnowhere.so.7: "));
    EXPECT_THAT(text, HasSubstr("apt-get install libshout"));
}

TEST(OpenedLibrary, ReportsAMissingFunction) {
    const std::string text = refusal({"libc.so.6"}, "offramp_shout_loudly");
    EXPECT_THAT(text,
                HasSubstr("--processor shout needs the function offramp_shout_loudly, which libc.so.6 does not have"));
    EXPECT_THAT(text, HasSubstr("apt-get install libshout"));
}

}  // namespace
}  // namespace offramp::test
