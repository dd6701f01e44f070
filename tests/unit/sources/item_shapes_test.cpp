#include "producer/runner/sources/item_shapes.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/app/images/unreadable_item.hpp"

namespace offramp {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

using Shape = ItemShapes::Shape;

TEST(ItemShapes, ExtremesHaveTheLeastAndGreatestExtents) {
    ItemShapes shapes;
    EXPECT_THAT(shapes.extremes(), IsEmpty());
    shapes.add_unreadable("a.npy: truncated");
    EXPECT_THAT(shapes.extremes(), IsEmpty());
    for (const Shape& shape : {Shape{1, 5, 5}, Shape{1, 2, 9}, Shape{1, 6, 6}, Shape{1, 8, 3}, Shape{1, 5, 5}})
        shapes.add(shape);
    const std::vector<Shape> extremes = shapes.extremes();
    EXPECT_EQ(extremes.front(), (Shape{1, 6, 6}));
    EXPECT_THAT(extremes, UnorderedElementsAre(Shape{1, 6, 6}, Shape{1, 2, 9}, Shape{1, 8, 3}));
    EXPECT_THAT(shapes.extremes({Shape{1, 2, 9}, Shape{1, 6, 6}}),
                UnorderedElementsAre(Shape{1, 5, 5}, Shape{1, 8, 3}));
    EXPECT_THAT(shapes.extremes({Shape{1, 2, 9}, Shape{1, 6, 6}, Shape{1, 8, 3}, Shape{1, 5, 5}}), IsEmpty());
    EXPECT_EQ(shapes.first_of({1, 5, 5}), 1U);
    EXPECT_THAT(shapes.of(0), IsEmpty());
    EXPECT_THAT(shapes.of(5), ElementsAre(1, 5, 5));
    EXPECT_EQ(shapes.items(), 6U);
    EXPECT_EQ(shapes.first_fault(), "a.npy: truncated");
}

TEST(ItemShapes, AnItemFitsIntoMemory) {
    EXPECT_NO_THROW(ItemShapes::require_size({1 << 15, 1 << 15}));
    EXPECT_THROW(ItemShapes::require_size({1 << 15, (1 << 15) + 1}), UnreadableItem);
    EXPECT_THROW(ItemShapes::require_size({std::int64_t{1} << 62, std::int64_t{1} << 62}), UnreadableItem);
    EXPECT_THROW(ItemShapes::require_size({3, 0}), UnreadableItem);
}

}  // namespace
}  // namespace offramp
