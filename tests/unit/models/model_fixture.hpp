#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>
#include <string>
#include <vector>

#include "common/base/error.hpp"
#include "producer/runner/models/model_library.hpp"
#include "producer/runner/models/weights_file.hpp"

// Shared by the tests of single models: the module as the producer opens it, and PyTorch's results.
namespace offramp {

inline ModelLibrary open_models() { return ModelLibrary::open(OFFRAMP_MODELS_MODULE); }

inline std::string golden_path(const std::string& name) {
    return std::filesystem::path(OFFRAMP_GOLDEN) / (name + ".safetensors");
}

inline bool has_golden() { return std::filesystem::exists(golden_path("encoder_golden")); }

inline std::vector<float> floats_of(const StoredTensor& tensor) {
    std::vector<float> values(tensor.bytes.size() / sizeof(float));
    std::memcpy(values.data(), tensor.bytes.data(), tensor.bytes.size());
    return values;
}

// Numbers of about unit variance, the same on every machine.
inline std::vector<float> made_up_input(const Model& model) {
    std::vector<float> values(model.input().tensor.elements());
    std::uint32_t state = 1;
    for (float& value : values) {
        state = state * 1664525U + 1013904223U;
        value = static_cast<float>(state >> 8U) * (3.4F / static_cast<float>(1U << 24U)) - 1.7F;
    }
    return values;
}

// The first output of one batch, as bytes of type T in row-major order.
template <class T>
std::vector<T> answer(Model& model, const std::vector<float>& input) {
    EXPECT_EQ(input.size(), model.input().tensor.elements());
    const std::vector<DeviceTensor> outputs = model.run(input.data());
    EXPECT_EQ(outputs.size(), 1U);
    EXPECT_EQ(outputs.front().spec, model.outputs().front());
    EXPECT_TRUE(outputs.front().spec.dense_rows());
    std::vector<T> values(outputs.front().spec.elements());
    std::memcpy(values.data(), outputs.front().data, values.size() * sizeof(T));
    return values;
}

// The largest difference, as a share of the largest expected number.
inline double relative_difference(const std::vector<float>& expected, const std::vector<float>& found) {
    EXPECT_EQ(expected.size(), found.size());
    constexpr double kNoMatch = std::numeric_limits<double>::infinity();
    double difference = 0;
    double largest = 0;
    for (std::size_t i = 0; i < expected.size(); ++i) {
        if (!std::isfinite(found[i])) return kNoMatch;
        difference = std::max(difference, std::abs(static_cast<double>(expected[i]) - static_cast<double>(found[i])));
        largest = std::max(largest, std::abs(static_cast<double>(expected[i])));
    }
    return largest == 0 ? kNoMatch : difference / largest;
}

}  // namespace offramp
