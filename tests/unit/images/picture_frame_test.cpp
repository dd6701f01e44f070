#include "common/app/images/geometry.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>

namespace offramp {
namespace {

std::uint32_t side() { return *rc::gen::inRange<std::uint32_t>(1, 9000); }

TEST(PictureFrame, SqueezesAWholePictureWithoutAShorterSide) {
    const PictureFrame frame = ImageSize{64, 32};
    EXPECT_EQ(frame.part_of({1000, 10}), (ResizedPart{.width = 64, .height = 32}));
    EXPECT_EQ(frame.visible_rect({1000, 10}), (PictureRect{.size = {1000, 10}}));
}

// torchvision 0.26's results for these sizes: the size of Resize(256), and the upper left corner of CenterCrop(224).
TEST(PictureFrame, CutsTorchvisionsMiddle) {
    const PictureFrame frame({224, 224}, 256);
    EXPECT_EQ(frame.part_of({640, 480}), (ResizedPart{.width = 341, .height = 256, .left = 58, .top = 16}));
    EXPECT_EQ(frame.part_of({480, 640}), (ResizedPart{.width = 256, .height = 341, .left = 16, .top = 58}));
    EXPECT_EQ(frame.part_of({427, 640}), (ResizedPart{.width = 256, .height = 383, .left = 16, .top = 80}));
    EXPECT_EQ(frame.part_of({500, 333}), (ResizedPart{.width = 384, .height = 256, .left = 80, .top = 16}));
    EXPECT_EQ(frame.part_of({100, 100}), (ResizedPart{.width = 256, .height = 256, .left = 16, .top = 16}));
    // Half pixels round to even: 0.5, 1.5 and 2.5 to 0, 2 and 2.
    EXPECT_EQ(PictureFrame({33, 33}, 34).part_of({34, 34}).left, 0U);
    EXPECT_EQ(PictureFrame({33, 33}, 36).part_of({36, 36}).left, 2U);
    EXPECT_EQ(PictureFrame({33, 33}, 38).part_of({38, 38}).left, 2U);
}

TEST(PictureFrame, CutsTheMiddleOfALongLine) {
    const PictureFrame frame({224, 224}, 8192);
    const ResizedPart part = frame.part_of({1, 100'000'000});
    EXPECT_EQ(part.height, 819'200'000'000U);
    EXPECT_EQ(part.top, (part.height - 224) / 2);
    EXPECT_EQ(frame.visible_rect({1, 100'000'000}), (PictureRect{.left = 0, .top = 50'000'000, .size = {1, 1}}));
}

RC_GTEST_PROP(PictureFrame, WhatIsSeenLiesWithinThePictureAndIsTheFramesShareOfIt, ()) {
    const ImageSize picture{side(), side()};
    const std::uint32_t shorter = *rc::gen::inRange<std::uint32_t>(32, 8193);
    const std::uint32_t middle = *rc::gen::inRange<std::uint32_t>(32, shorter + 1);
    const PictureFrame frame({middle, middle}, shorter);
    const ResizedPart part = frame.part_of(picture);
    RC_ASSERT(std::min(part.width, part.height) == shorter);
    RC_ASSERT(part.left + middle <= part.width);
    RC_ASSERT(part.top + middle <= part.height);
    const PictureRect seen = frame.visible_rect(picture);
    RC_ASSERT(seen.size.width >= 1U && seen.left + seen.size.width <= picture.width);
    RC_ASSERT(seen.size.height >= 1U && seen.top + seen.size.height <= picture.height);
    const double share = static_cast<double>(middle) / shorter * std::min(picture.width, picture.height);
    // Both ends and the longer side are rounded to whole pixels of the resized picture.
    const double rounded = 2.0 + share / shorter;
    RC_ASSERT(std::abs(seen.size.width - share) <= rounded);
    RC_ASSERT(std::abs(seen.size.height - share) <= rounded);
}

}  // namespace
}  // namespace offramp
