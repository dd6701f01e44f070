#include "producer/runner/checkpoint/kept_shapes.hpp"

#include <gtest/gtest.h>

#include <fstream>

#include "common/base/error.hpp"
#include "common/wire/tensor_spec.hpp"
#include "tests/contract/processors/processor_world.hpp"

namespace offramp {
namespace {

TEST(KeptShapes, AreThoseOfTheRunThatBegan) {
    const test::ScratchFolder folder;
    const std::string path = folder.path() + "/item-shapes";
    ItemShapes shapes;
    EXPECT_FALSE(add_kept_shapes(path, 3, shapes)) << "none are kept";
    shapes.add({1, 6, 10});
    shapes.add_unreadable("a.npy: truncated");
    shapes.add({1, 5, 9});
    shapes.set_form({.shape = {1, kVarying, kVarying}, .is_picture = true, .has_pixels = true});
    keep_shapes(path, shapes);
    ItemShapes again;
    EXPECT_TRUE(add_kept_shapes(path, 3, again));
    for (std::uint64_t item = 0; item < 3; ++item) EXPECT_EQ(again.of(item), shapes.of(item)) << item;
    EXPECT_EQ(again.form().shape, shapes.form().shape);
    EXPECT_TRUE(again.form().is_picture && again.form().has_pixels);
    ItemShapes other;
    EXPECT_THROW(add_kept_shapes(path, 4, other), ConfigError) << "the input has another item";
    std::ofstream(path, std::ios::app) << "torn";
    EXPECT_THROW(add_kept_shapes(path, 3, other), ProtocolError);
}

}  // namespace
}  // namespace offramp
