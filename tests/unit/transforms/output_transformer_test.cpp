#include "producer/runner/transforms/output_transformer.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <set>
#include <span>

#include "common/base/error.hpp"
#include "producer/device/cpu_stream.hpp"
#include "tests/support/error_of.hpp"

namespace offramp {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

TensorSpec spec_of(const char* name, DType dtype, std::initializer_list<std::int64_t> shape) {
    return TensorSpec::contiguous(name, dtype, std::span(shape.begin(), shape.size()));
}

const TensorSpec kScores = spec_of("logits", kFloat32, {2, 3, 1, 2});

// Scores of kScores, by row and class: the classes of the pixels are 2, 0 and 1, 1.
const std::vector<float> kValues{0, 5, 1, 4, 2, 3, /**/ -1, -1, 3, 0, -1, -1};

class OutputTransformerTest : public testing::Test {
  protected:
    OutputTransformer make(const std::vector<TensorSpec>& outputs, std::uint32_t upsample_factor,
                           const TransformSettings& settings) {
        return {*device_, outputs, upsample_factor, settings};
    }

    std::vector<DeviceTensor> apply(OutputTransformer& transformer) {
        return transformer.apply(*stream_, {{.spec = kScores, .data = kValues.data(), .owner = {}}}, outliers_);
    }

    std::string refusal(const std::vector<TensorSpec>& outputs, std::uint32_t upsample_factor,
                        const TransformSettings& settings) {
        return test::error_of<ConfigError>([&] { make(outputs, upsample_factor, settings); }, ErrorKind::Usage);
    }

    std::vector<RowOutliers> outliers_;
    std::unique_ptr<Device> device_ = open_cpu_device();
    std::unique_ptr<Stream> stream_ = device_->make_stream("compute");
};

std::span<const std::uint8_t> bytes_of(const DeviceTensor& tensor) {
    return {static_cast<const std::uint8_t*>(tensor.data), tensor.spec.elements()};
}

TEST_F(OutputTransformerTest, NonePassesTheTensorsThrough) {
    OutputTransformer none = make({kScores, spec_of("bytes", kUInt8, {2, 9})}, 1, {});
    EXPECT_EQ(none.transform(), OutputTransform::None);
    EXPECT_EQ(none.upsample_factor(), 1U);
    EXPECT_EQ(none.outputs().size(), 2U);
    const auto owner = std::make_shared<int>(1);
    const auto made = none.apply(*stream_, {{.spec = kScores, .data = kValues.data(), .owner = owner}}, outliers_);
    EXPECT_EQ(made.front().data, kValues.data());
    EXPECT_EQ(made.front().owner, owner);
    EXPECT_EQ(made.front().spec, kScores);
}

TEST_F(OutputTransformerTest, CastsEveryOutputInItsMemoryOrder) {
    TensorSpec channels_last = kScores;
    channels_last.strides = {6, 1, 6, 3};
    OutputTransformer cast = make({channels_last, spec_of("embedding", kFloat32, {2, 4})}, 1, {.transform = "cast"});
    EXPECT_EQ(cast.transform(), OutputTransform::Cast);
    EXPECT_EQ(cast.outputs().at(0).dtype, kFloat16);
    EXPECT_EQ(cast.outputs().at(0).strides, channels_last.strides);
    EXPECT_EQ(cast.outputs().at(1).describe(), "embedding float16 [2, 4]");

    OutputTransformer one = make({kScores}, 1, {.transform = "cast", .output_dtype = "bf16"});
    const auto made = apply(one);
    EXPECT_EQ(made.front().spec, one.outputs().front());
    const auto* bits = static_cast<const std::uint16_t*>(made.front().data);
    EXPECT_THAT(std::vector(bits, bits + 4), ElementsAre(0, 0x40a0, 0x3f80, 0x4080));
}

TEST_F(OutputTransformerTest, CastsAsManyRowsOfTokensAsABatchHas) {
    TensorSpec of_tokens = spec_of("tokens", kFloat32, {2, kVarying, 2});
    of_tokens.strides = {};
    OutputTransformer cast = make({of_tokens}, 1, {.transform = "cast", .largest = {{3}}});
    EXPECT_EQ(cast.outputs().front().describe(), "tokens float16 [2, ?, 2]");
    EXPECT_EQ(cast.most_varying_bytes(), 64U) << "3 x 2 numbers, aligned";
    for (const std::int64_t tokens : {6, 1, 5}) {
        const TensorSpec given = spec_of("tokens", kFloat32, {tokens, 2});
        const auto made = cast.apply(*stream_, {{.spec = given, .data = kValues.data(), .owner = {}}}, outliers_);
        EXPECT_EQ(made.front().spec, spec_of("tokens", kFloat16, {tokens, 2}));
        EXPECT_EQ(static_cast<const std::uint16_t*>(made.front().data)[1], 0x4500) << "5";
    }
    EXPECT_EQ(make({of_tokens, kScores}, 1, {.largest = {{3}, {}}}).most_varying_bytes(), 64U);
}

TEST_F(OutputTransformerTest, CastsBatchesOfDifferentShapes) {
    TensorSpec of_maps = spec_of("map", kFloat32, {2, 2, kVarying});
    of_maps.strides = {};
    OutputTransformer cast = make({of_maps}, 1, {.transform = "cast", .largest = {{2}}});
    for (const auto& [rows, width] : {std::pair{1, 1}, std::pair{2, 3}, std::pair{2, 1}}) {
        const TensorSpec given = spec_of("map", kFloat32, {rows, 2, width});
        const auto made = cast.apply(*stream_, {{.spec = given, .data = kValues.data(), .owner = {}}}, outliers_);
        EXPECT_EQ(made.front().spec, spec_of("map", kFloat16, {rows, 2, width}));
        EXPECT_EQ(static_cast<const std::uint16_t*>(made.front().data)[1], 0x4500) << "5";
    }
}

TEST_F(OutputTransformerTest, MapsClassesWithAndWithoutConfidence) {
    OutputTransformer plain = make({kScores}, 1, {.transform = "class-map"});
    EXPECT_EQ(plain.transform(), OutputTransform::ClassMap);
    EXPECT_EQ(plain.outputs().front().describe(), "classes uint8 [2, 1, 2]");
    EXPECT_THAT(bytes_of(apply(plain).front()), ElementsAre(2, 0, 1, 1));

    OutputTransformer both = make({kScores}, 1, {.transform = "class-map", .confidence = true});
    EXPECT_EQ(both.outputs().at(1).describe(), "confidence uint8 [2, 1, 2]");
    const auto made = apply(both);
    EXPECT_THAT(bytes_of(made.at(0)), ElementsAre(2, 0, 1, 1));
    EXPECT_THAT(bytes_of(made.at(1)), ElementsAre(170, 170, 246, 147));  // 255 / (1 + e^-1 + e^-2), ...
}

TEST_F(OutputTransformerTest, OneChannelIsTheForegroundAndItsScoresAreChecked) {
    const TensorSpec one_channel = spec_of("mask", kFloat32, {2, 1, 1, 3});
    OutputTransformer map =
        make({one_channel}, 1,
             {.transform = "class-map", .confidence = true, .foreground = ForegroundScale::of("probability", 0.5)});
    const auto classes_of = [&](const std::vector<float>& values) {
        outliers_.clear();  // their memory is used again
        const auto made = map.apply(*stream_, {{.spec = one_channel, .data = values.data(), .owner = {}}}, outliers_);
        const auto ids = bytes_of(made.at(0));
        return std::vector<int>(ids.begin(), ids.end());
    };
    EXPECT_THAT(classes_of({0, 0.4F, 0.6F, /**/ 1, 0.5F, 0.1F}), ElementsAre(0, 0, 1, 1, 1, 0));
    EXPECT_EQ(outliers_.at(0).output, "output mask float32 [2, 1, 1, 3]");
    EXPECT_EQ(outliers_.at(0).of(0), 0);
    EXPECT_EQ(outliers_.at(0).of(1), 0);
    classes_of({0, 0.4F, 0.6F, /**/ 1, 4.5F, 0.1F});
    EXPECT_EQ(outliers_.at(0).of(0), 0);
    EXPECT_EQ(outliers_.at(0).of(1), 4.5F);
    classes_of({0, 0, 0, /**/ 0, 0, 0});
    EXPECT_EQ(outliers_.at(0).of(1), 0);
}

// The CPU device, which the transformer treats as a GPU: it does not wait for the work.
class DeviceThatIsBusy final : public Device {
  public:
    DeviceInfo info() const override { return real_->info(); }
    bool is_gpu() const override { return true; }
    void use_on_this_thread() override {}
    std::unique_ptr<Stream> make_stream(const std::string& name, Priority priority) override {
        return real_->make_stream(name, priority);
    }
    std::unique_ptr<Stream> borrow_stream(void* native) override { return real_->borrow_stream(native); }
    std::unique_ptr<Event> make_event(Timing timing) override { return real_->make_event(timing); }
    std::unique_ptr<DeviceBuffer> allocate(std::size_t bytes, const std::string& purpose) override {
        return real_->allocate(bytes, purpose);
    }
    std::unique_ptr<DeviceBuffer> allocate_pinned_host(std::size_t bytes, const std::string& purpose) override {
        return real_->allocate_pinned_host(bytes, purpose);
    }
    std::unique_ptr<PinnedRegistration> pin(std::span<std::byte> range) override { return real_->pin(range); }
    PinningProof prove_pinned(std::span<std::byte> range) override { return real_->prove_pinned(range); }

  private:
    std::unique_ptr<Device> real_ = open_cpu_device();
};

// As when the run drops a batch without a free slab: dropping does not wait for its work.
TEST_F(OutputTransformerTest, ADroppedBatchsOutliersDoNotReachTheNextBatch) {
    DeviceThatIsBusy device;
    const TensorSpec one_channel = spec_of("mask", kFloat32, {2, 1, 1, 3});
    OutputTransformer map(device, {one_channel}, 1,
                          {.transform = "class-map", .foreground = ForegroundScale::of("probability", 0.5)});
    const std::vector<float> wrong{7, 7, 7, 7, 7, 7}, right{0, 0, 0, 1, 1, 1};
    CpuEvent gate(Device::Timing::Off);
    const std::uint64_t opened = gate.progress()->begin_recording();
    stream_->wait_for(gate);
    const auto submit = [&](const std::vector<float>& values) {
        std::vector<RowOutliers> outliers;
        map.apply(*stream_, {{.spec = one_channel, .data = values.data(), .owner = {}}}, outliers);
        return outliers;
    };
    const float* const memory = reinterpret_cast<const float*>(submit(wrong).at(0).memory->data());
    const std::vector<RowOutliers> next = submit(right);
    ASSERT_EQ(reinterpret_cast<const float*>(next.at(0).memory->data()), memory) << "dropped memory is reused";
    gate.progress()->reach(opened);
    stream_->synchronize();
    EXPECT_EQ(next.at(0).of(0), 0);
    EXPECT_EQ(next.at(0).of(1), 0);
}

// As in a network that PyTorch compiles for channels-last: the stride of the only channel is 1, and the values are in
// the usual order.
TEST_F(OutputTransformerTest, ADimensionOfOneElementMayHaveAnyStride) {
    TensorSpec one_channel = spec_of("mask", kFloat32, {2, 1, 4, 3});
    one_channel.strides[1] = 1;
    const TransformSettings settings{.transform = "class-map", .foreground = ForegroundScale::of("probability", 0.5)};
    EXPECT_NO_THROW(make({one_channel}, 1, settings));
    TensorSpec two_channels = spec_of("scores", kFloat32, {2, 2, 4, 3});
    two_channels.strides = {24, 1, 6, 2};
    EXPECT_THROW(make({two_channels}, 1, settings), ConfigError);
}

TEST_F(OutputTransformerTest, ClassMapsHaveTheEnlargedSize) {
    OutputTransformer map = make({kScores}, 8, {.transform = "class-map"});
    EXPECT_EQ(map.outputs().front().describe(), "classes uint8 [2, 8, 16]");
    EXPECT_EQ(map.upsample_factor(), 1U);
    const auto made = apply(map);
    EXPECT_EQ(bytes_of(made.front())[0], 2);
    EXPECT_EQ(bytes_of(made.front())[15], 0);
}

TEST_F(OutputTransformerTest, SeveralOutputsKeepTheirNames) {
    TensorSpec other = kScores;
    other.name = "aux";
    const OutputTransformer map = make({kScores, other}, 1, {.transform = "class-map", .confidence = true});
    std::vector<std::string> names;
    for (const TensorSpec& output : map.outputs()) names.push_back(output.name);
    EXPECT_THAT(names, ElementsAre("logits.classes", "logits.confidence", "aux.classes", "aux.confidence"));
}

TEST_F(OutputTransformerTest, LowResLeavesTheEnlargementToConsumers) {
    OutputTransformer plain = make({kScores}, 8, {.transform = "low-res"});
    EXPECT_EQ(plain.transform(), OutputTransform::LowRes);
    EXPECT_EQ(plain.upsample_factor(), 8U);
    EXPECT_EQ(plain.outputs().front(), kScores);
    EXPECT_EQ(apply(plain).front().data, kValues.data());
    OutputTransformer half = make({kScores}, 8, {.transform = "low-res", .output_dtype = "fp16"});
    EXPECT_EQ(half.outputs().front().describe(), "logits float16 [2, 3, 1, 2]");
    EXPECT_EQ(static_cast<const std::uint16_t*>(apply(half).front().data)[1], 0x4500);
}

// Two pictures of 1 x 2 pixels.
const TensorSpec kPictures = spec_of("picture", kFloat32, {2, 3, 1, 2});

TEST_F(OutputTransformerTest, MakesPixelsOfPicturesToEncode) {
    const TensorSpec embedding = spec_of("embedding", kFloat32, {2, 2});
    OutputTransformer encode = make({kPictures, embedding}, 1, {.encoded = PixelRange{.black = -1, .white = 1}});
    EXPECT_EQ(encode.outputs().at(0).describe(), "picture uint8 [2, ?]");
    EXPECT_EQ(encode.outputs().at(1), embedding);
    EXPECT_TRUE(encode.encodes(0));
    EXPECT_FALSE(encode.encodes(1));
    EXPECT_GE(encode.most_varying_bytes(), 16U * 16 * 3);
    const std::vector<float> numbers{-1, 1, 0, -0.5F, 0.5F, 1.2F, /**/ 0, 0, 0, 9, 0, 0};
    const std::vector<float> vectors{1, 2, 3, 4};
    const auto made = encode.apply(*stream_,
                                   {{.spec = kPictures, .data = numbers.data(), .owner = {}},
                                    {.spec = embedding, .data = vectors.data(), .owner = {}}},
                                   outliers_);
    EXPECT_EQ(made.at(0).spec.describe(), "picture uint8 [2, 3, 1, 2]");
    EXPECT_THAT(bytes_of(made.at(0)).first(6), ElementsAre(0, 255, 128, 64, 191, 255));
    EXPECT_EQ(made.at(1).data, vectors.data());
    ASSERT_EQ(outliers_.size(), 1U);
    EXPECT_EQ(outliers_.front().output, "output picture float32 [2, 3, 1, 2]");
    EXPECT_EQ(outliers_.front().of(0), 0);
    EXPECT_EQ(outliers_.front().of(1), 9);
}

TEST_F(OutputTransformerTest, KeepsPixelsToEncodeInTheirOrder) {
    TensorSpec pixels = spec_of("picture", kUInt8, {2, 3, 2, 2});
    pixels.strides = {12, 1, 6, 3};
    OutputTransformer encode = make({pixels}, 1, {.encoded = PixelRange{}});
    const std::vector<std::uint8_t> bytes(24, 7);
    const auto made = encode.apply(*stream_, {{.spec = pixels, .data = bytes.data(), .owner = {}}}, outliers_);
    EXPECT_EQ(made.front().data, bytes.data());
    EXPECT_TRUE(is_channels_last(made.front().spec));
    EXPECT_FALSE(is_channels_last(kPictures));
    EXPECT_FALSE(is_channels_last(spec_of("gray", kUInt8, {2, 1, 4, 4})));
    EXPECT_TRUE(outliers_.empty());
}

TEST_F(OutputTransformerTest, CastsPicturesBeforeTheyBecomePixels) {
    OutputTransformer encode = make({kPictures}, 1, {.transform = "cast", .encoded = PixelRange{}});
    const std::vector<float> numbers(12, 0.25F);
    const auto made = encode.apply(*stream_, {{.spec = kPictures, .data = numbers.data(), .owner = {}}}, outliers_);
    EXPECT_THAT(bytes_of(made.front()), testing::Each(64));
}

TEST_F(OutputTransformerTest, RefusesToEncodeWhatJpegCannotStore) {
    const TransformSettings encode{.encoded = PixelRange{}};
    EXPECT_THAT(refusal({spec_of("vector", kFloat32, {2, 9}), spec_of("file", kUInt8, {2, kVarying})}, 1, encode),
                AllOf(HasSubstr("--encode gpu finds no pictures"), HasSubstr("vector float32 [2, 9]: expected"),
                      HasSubstr("file uint8 [2, ?]: it is encoded already")));
    EXPECT_THAT(refusal({spec_of("picture", kFloat32, {2, 4, 8, 8})}, 1, encode), HasSubstr("alpha channel"));
    EXPECT_THAT(refusal({spec_of("picture", kUInt8, {1, 1, 1, 65'501})}, 1, encode), HasSubstr("65500"));
    TensorSpec turned = spec_of("picture", kFloat32, {2, 3, 8, 8});
    turned.strides = {192, 64, 1, 8};
    EXPECT_THAT(refusal({turned}, 1, encode), HasSubstr("neither contiguous nor channels-last"));
}

TEST_F(OutputTransformerTest, ReusesMemoryOnceItsOwnerIsGone) {
    OutputTransformer map = make({kScores}, 1, {.transform = "class-map"});
    std::set<const void*> seen;
    std::vector<DeviceTensor> before = apply(map);
    for (int i = 0; i < 20; ++i) {
        std::vector<DeviceTensor> now = apply(map);
        EXPECT_NE(now.front().data, before.front().data) << "memory in use is not written";
        seen.insert(now.front().data);
        before = std::move(now);
    }
    EXPECT_LE(seen.size(), 2U);
}

TEST_F(OutputTransformerTest, OutputsOutliveTheTransformer) {
    std::vector<DeviceTensor> made;
    {
        OutputTransformer map = make({kScores}, 1, {.transform = "class-map"});
        made = apply(map);
    }
    EXPECT_THAT(bytes_of(made.front()), ElementsAre(2, 0, 1, 1));
}

TEST_F(OutputTransformerTest, RefusesAMismatchAndNamesAcceptedValues) {
    const TensorSpec embedding = spec_of("embedding", kFloat32, {2, 64});
    EXPECT_THAT(refusal({embedding}, 1, {.transform = "class-map"}),
                AllOf(HasSubstr("embedding float32 [2, 64]"), HasSubstr("[B, classes, height, width]")));
    EXPECT_THAT(refusal({spec_of("output", kFloat32, {2, 64})}, 1, {.transform = "class-map"}),
                AllOf(HasSubstr("the output float32 [2, 64]"), Not(HasSubstr("output output"))));
    EXPECT_THAT(refusal({spec_of("logits", kBFloat16, {2, 3, 4, 4})}, 1, {.transform = "class-map"}),
                HasSubstr("float32 outputs"));
    TensorSpec channels_last = spec_of("logits", kFloat32, {2, 3, 4, 4});
    channels_last.strides = {48, 1, 12, 3};
    EXPECT_THAT(refusal({channels_last}, 1, {.transform = "class-map"}), HasSubstr("--memory-format contiguous"));
    EXPECT_THAT(refusal({spec_of("logits", kFloat32, {2, 257, 4, 4})}, 1, {.transform = "class-map"}),
                AllOf(HasSubstr("[2, 257, 4, 4]"), HasSubstr("1 to 256 classes")));
    EXPECT_THAT(refusal({kScores}, 1, {.transform = "low-res"}), HasSubstr("no last enlargement"));
    EXPECT_THAT(refusal({embedding}, 8, {.transform = "low-res"}), HasSubstr("embedding"));
    EXPECT_THAT(refusal({spec_of("payload", kUInt8, {2, 64})}, 1, {.transform = "cast"}),
                HasSubstr("payload uint8 [2, 64]"));
    EXPECT_THAT(refusal({kScores}, 1, {.transform = "softmax"}), HasSubstr("none, cast, class-map, low-res"));
}

TEST_F(OutputTransformerTest, RefusesSettingsOfAnotherTransform) {
    EXPECT_THAT(refusal({kScores}, 1, {.confidence = true}),
                HasSubstr("--confidence does not go with --transform none"));
    EXPECT_THAT(refusal({kScores}, 1, {.output_dtype = "fp16"}),
                HasSubstr("--output-dtype fp16 does not go with --transform none"));
    EXPECT_THAT(refusal({kScores}, 1, {.transform = "class-map", .output_dtype = "bf16"}), HasSubstr("class-map"));
    EXPECT_THAT(refusal({kScores}, 1, {.transform = "cast", .output_dtype = "fp32"}), HasSubstr("auto, fp16, bf16"));
    EXPECT_THAT(refusal({kScores}, 8, {.transform = "low-res", .output_dtype = "int8"}),
                HasSubstr("auto, fp32, fp16, bf16"));
}

}  // namespace
}  // namespace offramp
