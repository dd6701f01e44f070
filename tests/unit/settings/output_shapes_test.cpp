#include "common/app/settings/parsed_values.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace offramp {
namespace {

using testing::ElementsAre;
using testing::Optional;

TEST(OutputShapes, AreReadBackAsWritten) {
    const auto shapes = OutputShapes::parse("96x256x256,1024");
    ASSERT_TRUE(shapes);
    EXPECT_THAT(shapes->outputs, ElementsAre(ElementsAre(96, 256, 256), ElementsAre(1024)));
}

TEST(OutputShapes, RefusesAnythingElse) {
    for (const char* text : {"", ",", "3,", ",3", "3x", "x3", "3xx4", "3 x4", "0", "-1", "65537", "3;4", "?", "4,?x6",
                             "1x1x1x1x1x1x1x1", "1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1"})
        EXPECT_FALSE(OutputShapes::parse(text)) << text;
}

TEST(SampleShape, HasAQuestionMarkWhereSamplesDiffer) {
    EXPECT_THAT(parse_sample_shape("1x?x16x?", -1), Optional(ElementsAre(1, -1, 16, -1)));
    EXPECT_THAT(parse_sample_shape("?", -1), Optional(ElementsAre(-1)));
    for (const char* text : {"", "1x??", "1?", "x?", "?x", "-1", "?,?", "?x?x?x?x?x?x?x?"})
        EXPECT_FALSE(parse_sample_shape(text, -1)) << text;
}

}  // namespace
}  // namespace offramp
