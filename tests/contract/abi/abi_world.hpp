#pragma once

#include <gtest/gtest.h>
#include <offramp.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/support/scratch_folder.hpp"

namespace offramp::test {

// A folder for a run, and an egress of two small tensors on the CPU.
class AbiWorld : public ::testing::Test {
  protected:
    static constexpr std::uint32_t kRows = 4;

    void SetUp() override {
        run_dir_ = folder_ + "/run";
        tensors_ = {tensor("scores", scores_shape_), tensor("ids", ids_shape_)};
        tensors_[1].dtype = {1, 8, 1};
        options_.size = sizeof options_;
        options_.run_dir = run_dir_.c_str();
        options_.tensors = tensors_.data();
        options_.tensor_count = 2;
        options_.device = "cpu";
        options_.name = "made up";
    }

    static offramp_tensor tensor(const char* name, const std::vector<std::int64_t>& shape) {
        return {.size = sizeof(offramp_tensor),
                .name = name,
                .dtype = {2, 32, 1},
                .dims = static_cast<std::uint32_t>(shape.size()),
                .shape = shape.data(),
                .strides = nullptr,
                .data = nullptr};
    }
    struct Batch {
        std::vector<float> scores;
        std::vector<std::uint8_t> ids;
    };
    static Batch batch(std::uint64_t number) {
        Batch made;
        for (std::uint32_t i = 0; i < kRows * 3; ++i) made.scores.push_back(static_cast<float>(number * 1000 + i));
        for (std::uint32_t i = 0; i < kRows * 2; ++i) made.ids.push_back(static_cast<std::uint8_t>(number + i));
        return made;
    }

    test::ScratchFolder scratch_;
    std::string folder_ = scratch_.path(), run_dir_;
    const std::vector<std::int64_t> scores_shape_{kRows, 3}, ids_shape_{kRows, 2};
    std::vector<offramp_tensor> tensors_;
    offramp_egress_options options_{};
    offramp_error error_{};
};

}  // namespace offramp::test
