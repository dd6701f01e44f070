#include "producer/runner/sources/source_items.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/base/error.hpp"
#include "tests/support/error_of.hpp"
#include "tests/unit/sources/making.hpp"

namespace offramp {
namespace {

constexpr ImageSize kSize{40, 24};

struct ResultNames : ::testing::Test {
    void add(const char* picture) { folder.write(picture, encode_png(kSize, gradient(kSize))); }
    void require_distinct(const std::vector<std::string>& names) {
        config.input = folder.path();
        std::vector<TensorSpec> outputs;
        const std::int64_t shape[] = {4, 2};
        for (const std::string& name : names) outputs.push_back(TensorSpec::contiguous(name, kFloat32, shape));
        require_distinct_results(*test::make_source("images", config, test::picture_input(kSize), true), outputs);
    }

    TempFolder folder;
    RunConfig config;
};

TEST_F(ResultNames, RefusesDotsThatMakeNamesCollide) {
    add("cat.png");
    add("cat.aux.png");
    EXPECT_THAT(test::error_of<ConfigError>(
                    [&] {
                        require_distinct({"classes", "aux.classes"});
                    },
                    ErrorKind::Usage),
                testing::AllOf(::testing::HasSubstr("'cat.aux.classes'"), ::testing::HasSubstr("item 'cat'"),
                               ::testing::HasSubstr("item 'cat.aux'"), ::testing::HasSubstr("Rename one")));
}

TEST_F(ResultNames, AcceptsDotsWithoutCollisions) {
    add("cat.png");
    add("cat.aux.png");
    EXPECT_NO_THROW(require_distinct({"classes", "auxclasses", "x.classes"}));
    EXPECT_NO_THROW(require_distinct({"classes"}));
}

}  // namespace
}  // namespace offramp
