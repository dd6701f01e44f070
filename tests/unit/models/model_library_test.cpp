#include "producer/runner/models/model_library.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "common/base/error.hpp"
#include "tests/support/error_of.hpp"

namespace offramp {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// The error of opening `path`.
ConfigError refusal(const std::string& path) {
    try {
        (void)ModelLibrary::open(path);
    } catch (const ConfigError& error) {
        return error;
    }
    ADD_FAILURE() << path << " was opened";
    return ConfigError("");
}

TEST(ModelLibrary, ReportsAbsentModuleByPathAndFix) {
    const ConfigError error = refusal("/nowhere/libofframp_models.so");
    EXPECT_THAT(error.what(), AllOf(HasSubstr("/nowhere/libofframp_models.so"), HasSubstr("LibTorch (2.7 or later)"),
                                    HasSubstr("setup")));
    EXPECT_EQ(error.kind(), ErrorKind::DeviceUnsupported);
}

TEST(ModelLibrary, ReportsTheLoadersError) {
    const std::string path = testing::TempDir() + "no_library.so";
    std::ofstream(path) << "not an ELF file";
    EXPECT_THAT(refusal(path).what(), AllOf(HasSubstr(path), HasSubstr("cannot be loaded")));
    std::filesystem::remove(path);
}

TEST(ModelLibrary, RefusesLibraryWithoutTheSymbol) {
    EXPECT_THAT(refusal(OFFRAMP_FAKE_NO_SYMBOL).what(), HasSubstr("offramp_models_v1"));
}

TEST(ModelLibrary, RefusesAnotherInterfaceVersion) {
    EXPECT_THAT(refusal(OFFRAMP_FAKE_OTHER_ABI).what(),
                AllOf(HasSubstr("version " + std::to_string(kModelModuleAbi + 41)),
                      HasSubstr("needs version " + std::to_string(kModelModuleAbi))));
}

TEST(ModelLibrary, LooksBesideTheProgramByDefault) {
    EXPECT_THAT(ModelLibrary::default_path(), testing::EndsWith("/lib/libofframp_models.so"));
}

TEST(ModelLibrary, MakesOpenMpThreadsSleepUnlessTheUserDecides) {
    ASSERT_EQ(::unsetenv("OMP_WAIT_POLICY"), 0);
    (void)ModelLibrary::open(OFFRAMP_FAKE_SOUND);
    EXPECT_STREQ(std::getenv("OMP_WAIT_POLICY"), "passive");
    ASSERT_EQ(::setenv("OMP_WAIT_POLICY", "active", 1), 0);
    (void)ModelLibrary::open(OFFRAMP_FAKE_SOUND);
    EXPECT_STREQ(std::getenv("OMP_WAIT_POLICY"), "active");
}

TEST(ModelLibrary, ListsItsModels) {
    const ModelLibrary library = ModelLibrary::open(OFFRAMP_FAKE_SOUND);
    EXPECT_THAT(library.names(), testing::ElementsAre("faulty", "also-faulty"));
    EXPECT_TRUE(library.has("faulty"));
    EXPECT_FALSE(library.has("copy"));
    EXPECT_EQ(library.libtorch_version(), "none");
    EXPECT_FALSE(library.has_cuda());
}

TEST(ModelLibrary, ListsKnownModelsForAnUnknownOne) {
    const std::string built_in[] = {"copy"};
    EXPECT_EQ(
        test::error_of<ConfigError>(
            [&] { (void)ModelLibrary::open(OFFRAMP_FAKE_SOUND).make({.name = "resnet"}, built_in); }, ErrorKind::Usage),
        "unknown model 'resnet'. Known models: also-faulty, copy, faulty");
}

// The module has its own copy of the type information, yet a handler here must recognise the types.
TEST(ModelLibrary, ExceptionsKeepTheirTypeAcrossTheBoundary) {
    const ModelLibrary library = ModelLibrary::open(OFFRAMP_FAKE_SOUND);
    EXPECT_EQ(
        test::error_of<ConfigError>([&] { (void)library.make({.name = "faulty", .seed = 1}); }, ErrorKind::BadInput),
        "weights of the faulty model. the fix");
    try {
        (void)library.make({.name = "faulty", .seed = 2});
        FAIL() << "nothing was thrown";
    } catch (const ConfigError&) {
        FAIL() << "caught as another type";
    } catch (const Error& error) {
        EXPECT_EQ(error.kind(), ErrorKind::DeviceBroken);
    }
    EXPECT_THROW((void)library.make({.name = "faulty", .seed = 3}), SystemError);
}

}  // namespace
}  // namespace offramp
