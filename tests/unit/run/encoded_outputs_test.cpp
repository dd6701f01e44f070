#include "producer/runner/run/encoded_outputs.hpp"

#include <gmock/gmock.h>

#include <array>
#include <cstring>

#include "common/base/error.hpp"
#include "consumer/processors/pictures/lossy_encoders.hpp"
#include "tests/support/error_of.hpp"

namespace offramp {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// With a CPU's library, for a device whose memory the CPU reads.
class EncoderOfTheCpu final : public PictureEncoder {
  public:
    std::vector<File> encode(std::span<const Picture> pictures,
                             const std::function<std::byte*(std::size_t bytes)>& room) override {
        std::vector<File> files;
        for (const Picture& picture : pictures) {
            const auto encoded = jpeg_.encode({picture.pixels, std::size_t{picture.width} * picture.height},
                                              {picture.width, picture.height});
            files.push_back({.data = room(encoded.size()), .bytes = encoded.size()});
            std::memcpy(files.back().data, encoded.data(), encoded.size());
        }
        return files;
    }

  private:
    JpegEncoder jpeg_{90};
};

// Keeps what would be copied.
class KeptOutputs final : public RunOutputs {
  public:
    explicit KeptOutputs(std::vector<OutputBatch>& kept) : kept_(kept) {}
    bool submit(OutputBatch batch) override { return kept_.push_back(std::move(batch)), true; }
    void finish() override {}
    void stop() override {}
    OutputStats stats() const override { return {.batches_published = kept_.size()}; }
    BrokerReport report() const override { return {}; }
    void abort() override {}
    void join() override {}

  private:
    std::vector<OutputBatch>& kept_;
};

// Batches of two gray pictures of 8 x 8 pixels, and a vector each.
class EncodedOutputsTest : public testing::Test {
  protected:
    static constexpr std::int64_t kSide = 8;

    EncodedOutputs make() {
        return {std::make_unique<KeptOutputs>(kept_),
                std::make_unique<EncoderOfTheCpu>(),
                {.device = *device_, .transformer = transformer_, .layout = layout_, .on_failure = [this] {
                     ++failures_;
                 }}};
    }

    // The model's batch after the transform; its numbers are `values`, one of each picture.
    OutputBatch batch(std::uint64_t number, std::array<float, 2> values, bool first_is_empty = false) {
        const auto picture = std::make_shared<std::vector<float>>();
        for (const float value : values) picture->insert(picture->end(), kSide * kSide, value);
        static const std::vector<float> vectors(6);
        OutputBatch made{.number = number, .rows = {{.item = 2 * number, .key = "a"}, {.item = 2 * number + 1}}};
        made.rows[0].empty = first_is_empty;
        made.tensors = transformer_.apply(*stream_,
                                          {{.spec = model_[0], .data = picture->data(), .owner = picture},
                                           {.spec = model_[1], .data = vectors.data(), .owner = {}}},
                                          made.outliers);
        made.computed = device_->make_event();
        stream_->record(*made.computed);
        return made;
    }

    static std::vector<std::byte> jpeg(int pixel) {
        const std::vector<std::uint8_t> pixels(kSide * kSide, static_cast<std::uint8_t>(pixel));
        JpegEncoder encoder(90);
        const auto file = encoder.encode(pixels, {kSide, kSide});
        return {file.begin(), file.end()};
    }

    static std::vector<std::byte> file_of(const DeviceTensor& tensor, std::size_t row) {
        const DeviceTensor::Sample& sample = tensor.samples.at(row);
        EXPECT_EQ(tensor.extents.at(row), static_cast<std::int64_t>(sample.bytes));
        return {sample.data, sample.data + sample.bytes};
    }

    const std::vector<TensorSpec> model_{
        TensorSpec::contiguous("picture", kFloat32, std::array<std::int64_t, 4>{2, 1, kSide, kSide}),
        TensorSpec::contiguous("vector", kFloat32, std::array<std::int64_t, 2>{2, 3})};
    std::unique_ptr<Device> device_ = open_cpu_device();
    std::unique_ptr<Stream> stream_ = device_->make_stream("compute");
    OutputTransformer transformer_{*device_, model_, 1, {.encoded = PixelRange{}}};
    SlabLayout layout_ = SlabLayout::make(transformer_.outputs(), 2, 1, 64, 1 << 16);
    std::vector<OutputBatch> kept_;
    int failures_ = 0;
};

TEST_F(EncodedOutputsTest, PassesFilesOnInTheOrderOfBatches) {
    EncodedOutputs outputs = make();
    EXPECT_TRUE(outputs.submit(batch(0, {0, 1})));
    EXPECT_TRUE(outputs.submit(batch(1, {0.5F, 1}, true)));
    OutputBatch unread{.number = 2, .rows = {{.item = 4, .empty = true}}};
    EXPECT_TRUE(outputs.submit(std::move(unread)));
    outputs.finish();
    ASSERT_EQ(kept_.size(), 3U);
    const DeviceTensor& first = kept_[0].tensors.at(0);
    EXPECT_EQ(first.spec, layout_.tensors[0]);
    EXPECT_EQ(file_of(first, 0), jpeg(0));
    EXPECT_EQ(file_of(first, 1), jpeg(255));
    EXPECT_TRUE(file_of(kept_[1].tensors.at(0), 0).empty());
    EXPECT_EQ(file_of(kept_[1].tensors.at(0), 1), jpeg(255));
    EXPECT_EQ(kept_[1].tensors.at(1).spec, model_[1]);
    EXPECT_TRUE(kept_[2].tensors.empty());
    EXPECT_EQ(outputs.stats().samples_submitted, 3U);
    EXPECT_EQ(outputs.stats().batches_published, 3U);
}

TEST_F(EncodedOutputsTest, ANumberWithoutAPixelEndsTheRun) {
    EncodedOutputs outputs = make();
    outputs.submit(batch(0, {5, 1}, true));  // the row is empty
    outputs.submit(batch(1, {1, -3}));
    EXPECT_THAT(test::error_of<ConfigError>([&] { outputs.finish(); }, ErrorKind::Usage),
                HasSubstr("picture float32 [2, 1, 8, 8] of the item '3' holds -3, far outside"));
    EXPECT_EQ(failures_, 1);
    EXPECT_EQ(kept_.size(), 1U);
    EXPECT_THROW(outputs.submit(batch(2, {1, 1})), ConfigError);
}

TEST_F(EncodedOutputsTest, AFileThatNoSlabHoldsEndsTheRun) {
    layout_ = SlabLayout::make(transformer_.outputs(), 2, 1, 64, 128);
    EncodedOutputs outputs = make();
    outputs.submit(batch(0, {0, 1}));
    EXPECT_THROW(outputs.finish(), RunFailure);
    EXPECT_TRUE(kept_.empty());
}

TEST_F(EncodedOutputsTest, TakesNothingAfterAStop) {
    EncodedOutputs outputs = make();
    outputs.stop();
    EXPECT_FALSE(outputs.submit(batch(0, {0, 1})));
    outputs.finish();
    EXPECT_TRUE(kept_.empty());
    EXPECT_EQ(outputs.stats().batches_submitted, 1U);
}

}  // namespace
}  // namespace offramp
