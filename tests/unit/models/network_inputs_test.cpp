#include "producer/runner/models/network_file.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/base/error.hpp"

namespace offramp {
namespace {

using testing::AllOf;
using testing::HasSubstr;

std::string error_of(const NetworkInputs& inputs, const std::string& metadata, ErrorKind code = ErrorKind::Config) {
    try {
        check_inputs(inputs, parse_model_metadata(metadata, "net.toml"), "net.pt2");
    } catch (const ConfigError& refused) {
        EXPECT_EQ(refused.kind(), code);
        return refused.what();
    }
    return "they fit";
}

std::string arrays(const std::vector<std::string>& names) {
    std::string text;
    for (const std::string& name : names)
        text += "[[input]]\nname = \"" + name + "\"\nshape = \"3x4\"\ndtype = \"int8\"\n";
    return text;
}

TEST(NetworkInputs, FitByNumberAndName) {
    EXPECT_EQ(error_of({.names = {"x"}, .needed = 1}, ""), "they fit");
    EXPECT_EQ(error_of({.names = {"x"}, .needed = 1}, arrays({"y"})), "they fit") << "a single input fits by any name";
    EXPECT_EQ(error_of({.names = {"x", "y"}, .needed = 2}, arrays({"x", "y"})), "they fit");
    EXPECT_EQ(error_of({.names = {"", ""}, .needed = 2}, arrays({"a", "b"})), "they fit") << "the file has no names";
    EXPECT_EQ(error_of({.names = {"x", "y", "z"}, .needed = 1}, ""), "they fit") << "two are optional";
    EXPECT_EQ(error_of({.names = {"x", "y", "z"}, .needed = 1}, arrays({"x", "y"})), "they fit");
}

TEST(NetworkInputs, ShowTheKnownPartOfAFittingInput) {
    EXPECT_THAT(error_of({.names = {"x", "y"}, .needed = 2}, arrays({"y"})),
                AllOf(HasSubstr("'net.pt2' takes 2 inputs, but net.toml has 1 [[input]]"),
                      HasSubstr("\n[[input]]\nname = \"x\"\nshape = \"SHAPE\"\ndtype = \"float32\"\n[[input]]\nname = "
                                "\"y\"\nshape = \"3x4\"\ndtype = \"int8\"")));
    EXPECT_THAT(error_of({.names = {"input_ids", "attention_mask"}, .needed = 2}, ""),
                AllOf(HasSubstr("net.toml has no tables [[input]]"),
                      HasSubstr("name = \"input_ids\"\ntokens = \"ids\"\nshape = LENGTH"),
                      HasSubstr("name = \"attention_mask\"\ntokens = \"mask\"")));
    EXPECT_THAT(error_of({.names = {"x", "y"}, .needed = 2}, arrays({"y", "x"})),
                AllOf(HasSubstr("the input number 1 of the model 'net.pt2' is 'x', but net.toml calls it 'y'"),
                      HasSubstr("in this order")));
    EXPECT_THAT(error_of({.names = {"", ""}, .needed = 2}, arrays({"a"})),
                AllOf(HasSubstr("name = \"a\"\nshape = \"3x4\""), HasSubstr("name = \"NAME\"")));
    EXPECT_THAT(error_of({.names = {"x", "y", "z"}, .needed = 2}, ""), HasSubstr("takes 2 to 3 inputs"));
    EXPECT_THAT(error_of({.names = {"x"}, .needed = 1}, arrays({"x", "y"})),
                HasSubstr("takes 1 input, but net.toml has 2 [[input]]"));
    EXPECT_THAT(error_of({}, "", ErrorKind::BadInput), HasSubstr("takes no input"));
}

}  // namespace
}  // namespace offramp
