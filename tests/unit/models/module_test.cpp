#include <dlfcn.h>

#include "tests/unit/models/model_fixture.hpp"

namespace offramp {
namespace {

bool has_libtorch() { return ::dlopen("libtorch_cpu.so", RTLD_NOW | RTLD_NOLOAD) != nullptr; }

const bool kHadLibTorchAtStart = has_libtorch();

TEST(ModelModule, OffersItsModels) {
    const ModelLibrary library = open_models();
    EXPECT_THAT(library.names(), testing::UnorderedElementsAre("cutout", "deeplabv3-resnet50", "encoder"));
    EXPECT_THAT(library.libtorch_version(), testing::MatchesRegex("2\\.[0-9]+\\.[0-9]+.*"));
}

TEST(ModelModule, LibTorchIsLoadedByTheModuleOnly) {
    EXPECT_FALSE(kHadLibTorchAtStart) << "the test program itself links LibTorch";
    (void)open_models();
    EXPECT_TRUE(has_libtorch());
}

// The module translates LibTorch's exceptions.
TEST(ModelModule, ReportsInsufficientMemory) {
    const std::unique_ptr<Model> model = open_models().make({.name = "encoder", .batch = 4'000'000'000U});
    const float nothing = 0;
    try {
        (void)model->run(&nothing);  // fails at the first allocation, of 524 TB, before anything is read
        FAIL() << "524 TB were allocated";
    } catch (const Error& error) {
        EXPECT_EQ(error.kind(), ErrorKind::System) << error.what();
        EXPECT_THAT(error.what(),
                    testing::AllOf(testing::HasSubstr("batch 4000000000"), testing::HasSubstr("'encoder'")));
    }
}

}  // namespace
}  // namespace offramp
