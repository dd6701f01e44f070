#include "consumer/sinks/files/output_name.hpp"

#include <gmock/gmock.h>
#include <rapidcheck/gtest.h>

#include <filesystem>

#include "common/base/error.hpp"
#include "tests/support/error_of.hpp"

namespace offramp {
namespace {

TEST(SamplePath, JoinsFolderKeyAndSuffix) {
    EXPECT_EQ(sample_path("out", "a/b.jpg", ".png"), "out/a/b.jpg.png");
    EXPECT_EQ(sample_path("out", "..a", ""), "out/..a");
}

TEST(SampleName, CutsATooLongNameBeforeTheSuffix) {
    const std::string long_part(200, 'k');
    const std::string suffix = "." + std::string(63, 'o') + ".webp";
    const std::string name = sample_name("folder/" + long_part + "a", suffix);
    EXPECT_EQ(name.size(), std::string("folder/").size() + 255);
    EXPECT_TRUE(name.starts_with("folder/kkk") && name.ends_with(suffix)) << name;
    EXPECT_NE(name, sample_name("folder/" + long_part + "b", suffix));
    EXPECT_EQ(name, sample_name("folder/" + long_part + "a", suffix));
    EXPECT_EQ(sample_path("out", "folder/" + long_part + "a", suffix), "out/" + name);
    EXPECT_EQ(sample_name(long_part, suffix.substr(0, 55)), long_part + suffix.substr(0, 55)) << "255 bytes fit";
    EXPECT_EQ(sample_name(std::string(255, '\xff'), ".png").size(), 255U) << "for any bytes";
}

TEST(SamplePath, TheErrorNamesKeyAndReason) {
    EXPECT_THAT(test::error_of([&] { sample_path("out", "a/../b\n", ".png"); }, ErrorKind::BadInput),
                testing::AllOf(testing::HasSubstr("'a/../b\\n'"), testing::HasSubstr("'..'")));
}

// Keys of the critical characters: an accepted key stays below the folder.
RC_GTEST_PROP(SamplePath, NeverLeavesTheFolder, ()) {
    const auto key = *rc::gen::container<std::string>(rc::gen::element('.', '/', 'a', '\0', '\n', '\\'));
    try {
        const std::filesystem::path path = sample_path("/out", key, ".png");
        const std::string normal = path.lexically_normal().string();
        RC_ASSERT(normal == path.string());
        RC_ASSERT(normal.starts_with("/out/"));
        RC_ASSERT(normal.find('\0') == std::string::npos);
    } catch (const Error&) {
        RC_TAG("refused");
    }
}

RC_GTEST_PROP(Escaped, IsOneLineAndReportsTextsApart, (const std::string& a, const std::string& b)) {
    RC_ASSERT(escaped(a).find_first_of("\t\n\r") == std::string::npos);
    RC_ASSERT((escaped(a) == escaped(b)) == (a == b));
}

TEST(CheckedOutputName, RefusesInvalidNames) {
    EXPECT_EQ(checked_output_name("layer4.conv1"), "layer4.conv1");
    for (const std::string_view name : {"", "a/b", "a\nb"}) EXPECT_THROW(checked_output_name(name), Error) << name;
}

}  // namespace
}  // namespace offramp
