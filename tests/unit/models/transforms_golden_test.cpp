#include <cstdlib>
#include <ranges>

#include "consumer/processors/segmentation/enlarged_sample.hpp"
#include "producer/runner/transforms/output_transformer.hpp"
#include "tests/unit/models/model_fixture.hpp"

// The transforms of outputs, on the device and in a consumer, against PyTorch's functions on the same logits of a real
// network.
namespace offramp {
namespace {

constexpr std::int64_t kRows = 2, kClasses = 21, kSmall = 16, kUpsampleFactor = 8, kSide = kSmall * kUpsampleFactor;

template <class T>
std::vector<T> numbers_of(const StoredTensor& tensor) {
    std::vector<T> values(tensor.bytes.size() / sizeof(T));
    std::memcpy(values.data(), tensor.bytes.data(), tensor.bytes.size());
    return values;
}

template <class T>
std::vector<T> numbers_of(const DeviceTensor& tensor) {
    const auto* first = static_cast<const T*>(tensor.data);
    return {first, first + tensor.spec.elements()};
}

class TransformsGolden : public testing::Test {
  protected:
    void SetUp() override {
        if (!has_golden()) GTEST_SKIP() << "the tests were built without torchvision 0.26";
        golden_ = std::make_unique<SafetensorsFile>(golden_path("deeplabv3_golden"),
                                                    SafetensorsWords{.what = "the golden outputs", .hint = "none"});
        logits_ = floats_of(*golden_->find("logits"));
        small_ = floats_of(*golden_->find("small_logits"));
    }

    // The transform's outputs for PyTorch's logits.
    std::vector<DeviceTensor> transformed(const TransformSettings& settings) {
        const bool wants_small = OutputTransformer::wants_small_outputs(settings.transform);
        const std::int64_t side = wants_small ? kSmall : kSide;
        const std::int64_t shape[] = {kRows, kClasses, side, side};
        const TensorSpec spec = TensorSpec::contiguous("logits", kFloat32, shape);
        transformer_ = std::make_unique<OutputTransformer>(*device_, std::vector{spec},
                                                           wants_small ? kUpsampleFactor : 1, settings);
        const auto& values = wants_small ? small_ : logits_;
        std::vector<RowOutliers> unread;
        return transformer_->apply(*stream_, {{.spec = spec, .data = values.data(), .owner = {}}}, unread);
    }

    ClassScores sample(const DeviceTensor& tensor, std::int64_t row) const {
        const std::size_t row_bytes = tensor.spec.row_bytes();
        return {.data = static_cast<const std::byte*>(tensor.data) + static_cast<std::size_t>(row) * row_bytes,
                .dtype = tensor.spec.dtype,
                .classes = kClasses,
                .height = kSmall,
                .width = kSmall,
                .class_stride = kSmall * kSmall,
                .row_stride = kSmall,
                .column_stride = 1};
    }

    std::vector<float> enlarged(const DeviceTensor& tensor) const {
        std::vector<float> all(logits_.size());
        EnlargedSample enlarged;
        for (std::int64_t row = 0; row < kRows; ++row) {
            enlarged.begin(sample(tensor, row), kUpsampleFactor);
            enlarged.all(
                std::span(all).subspan(static_cast<std::size_t>(row) * all.size() / kRows, all.size() / kRows));
        }
        return all;
    }

    // True if PyTorch's two largest logits of a pixel are so close that rounding may decide.
    bool is_near_tie(std::size_t pixel) const {
        constexpr std::size_t kPixels = kSide * kSide;
        float first = -std::numeric_limits<float>::infinity();
        float second = first;
        for (std::size_t c = 0; c < kClasses; ++c) {
            const float logit = logits_[(pixel / kPixels * kClasses + c) * kPixels + pixel % kPixels];
            second = std::max(second, std::min(first, logit));
            first = std::max(first, logit);
        }
        return first - second <= 1e-6F * std::max(std::abs(first), std::abs(second));
    }

    std::unique_ptr<Device> device_ = open_cpu_device();
    std::unique_ptr<Stream> stream_ = device_->make_stream("compute");
    std::unique_ptr<OutputTransformer> transformer_;
    std::unique_ptr<SafetensorsFile> golden_;
    std::vector<float> logits_, small_;
};

TEST_F(TransformsGolden, NoneAndPlainLowResAreTheModelsTensors) {
    EXPECT_EQ(transformed({}).front().data, logits_.data());
    EXPECT_EQ(transformed({.transform = "low-res"}).front().data, small_.data());
}

TEST_F(TransformsGolden, CastsGivePyTorchsBits) {
    const auto expect_bits = [&](const TransformSettings& settings, const char* name) {
        EXPECT_EQ(numbers_of<std::uint16_t>(transformed(settings).front()),
                  numbers_of<std::uint16_t>(*golden_->find(name)))
            << name;
    };
    expect_bits({.transform = "cast"}, "half");
    expect_bits({.transform = "cast", .output_dtype = "bf16"}, "bfloat16");
    expect_bits({.transform = "low-res", .output_dtype = "fp16"}, "small_half");
    expect_bits({.transform = "low-res", .output_dtype = "bf16"}, "small_bfloat16");
}

TEST_F(TransformsGolden, ClassMapEqualsPyTorchsExceptNearTies) {
    const auto made = transformed({.transform = "class-map", .confidence = true});
    const auto classes = numbers_of<std::uint8_t>(made.at(0));
    const auto expected = numbers_of<std::uint8_t>(*golden_->find("classes"));
    ASSERT_EQ(classes.size(), expected.size());
    for (std::size_t i = 0; i < classes.size(); ++i) EXPECT_TRUE(classes[i] == expected[i] || is_near_tie(i)) << i;
    const auto confidence = numbers_of<std::uint8_t>(made.at(1));
    const auto probability = numbers_of<std::uint8_t>(*golden_->find("confidence"));
    std::size_t different = 0;
    for (std::size_t i = 0; i < confidence.size(); ++i) {
        EXPECT_LE(std::abs(int{confidence[i]} - int{probability[i]}), 1) << i;
        different += confidence[i] != probability[i];
    }
    EXPECT_LE(different * 1000, confidence.size());
    const std::size_t differing_classes =
        classes.size() -
        static_cast<std::size_t>(std::ranges::count_if(std::views::iota(std::size_t{0}, classes.size()),
                                                       [&](std::size_t i) { return classes[i] == expected[i]; }));
    RecordProperty("classes_that_differ", static_cast<int>(differing_classes));
    RecordProperty("confidences_that_differ", static_cast<int>(different));
}

TEST_F(TransformsGolden, ConsumersEnlargeAsPyTorchDoes) {
    const std::vector<float> found = enlarged(transformed({.transform = "low-res"}).front());
    EXPECT_LE(relative_difference(logits_, found), 2e-7);
    const auto rounded_to = [&](const char* type) {
        return enlarged(transformed({.transform = "low-res", .output_dtype = type}).front());
    };
    EXPECT_LE(relative_difference(logits_, rounded_to("fp16")), 6e-4);
    EXPECT_LE(relative_difference(logits_, rounded_to("bf16")), 4e-3);
    int same = 0;
    for (std::size_t i = 0; i < found.size(); ++i) same += found[i] == logits_[i];
    RecordProperty("scores_of_equal_bits", same);
    RecordProperty("scores", static_cast<int>(found.size()));
}

// The device's class map and a consumer's argmax of the enlarged scores use one formula: every pixel is equal.
TEST_F(TransformsGolden, ClassMapIsTheArgmaxOfTheConsumersEnlargement) {
    const std::vector<float> all = enlarged(transformed({.transform = "low-res"}).front());
    std::vector<std::uint8_t> ids(static_cast<std::size_t>(kRows * kSide * kSide));
    ClassArgmax argmax;
    for (std::int64_t row = 0; row < kRows; ++row)
        argmax.run({.data = reinterpret_cast<const std::byte*>(all.data() + row * kClasses * kSide * kSide),
                    .dtype = kFloat32,
                    .classes = kClasses,
                    .height = kSide,
                    .width = kSide,
                    .class_stride = kSide * kSide,
                    .row_stride = kSide,
                    .column_stride = 1},
                   0, kSide, std::span(ids).subspan(static_cast<std::size_t>(row * kSide * kSide), kSide * kSide));
    EXPECT_EQ(numbers_of<std::uint8_t>(transformed({.transform = "class-map"}).front()), ids);
}

}  // namespace
}  // namespace offramp
