#pragma once

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <type_traits>

#include "common/base/error.hpp"

namespace offramp::test {

// The text of the error that `work` throws. The test fails if it throws none, or one of another kind.
template <class Thrown = Error, class Work>
std::string error_of(const Work& work, std::optional<ErrorKind> kind = std::nullopt) {
    try {
        work();
    } catch (const Thrown& error) {
        if constexpr (std::is_base_of_v<Error, Thrown>) {
            if (kind) {
                EXPECT_EQ(error.kind(), *kind) << error.what();
            }
        }
        return error.what();
    }
    ADD_FAILURE() << "no error";
    return "";
}

}  // namespace offramp::test
