// Networks of one channel, [N, 1, H, W]: the probability of foreground per pixel.
#include <gmock/gmock.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>

#include "consumer/processors/processor.hpp"
#include "consumer/processors/records/record_rows.hpp"
#include "tests/unit/images/picture_files.hpp"
#include "tests/unit/processors/decoded_png.hpp"
#include "tests/unit/processors/hand_made.hpp"

namespace offramp {
namespace {

using test::HandMade;
using test::one_sample;
using test::ScratchFolder;
using test::spec_of;
using testing::ElementsAre;

HandMade sample_of(std::initializer_list<float> scores) {
    HandMade made = one_sample();
    made.add(spec_of("mask", kFloat32, {1, 1, 1, static_cast<std::int64_t>(scores.size())}));
    std::ranges::copy(scores, made.storage[0].begin());
    return made;
}

class OneChannel : public testing::Test {
  protected:
    // The original is as large as the output.
    test::Tree run_over(const std::string& processor, const SlabContents& contents) {
        const auto width = static_cast<std::uint32_t>(contents.tensors[0].spec.shape[3]) * contents.upsample_factor;
        const ScratchFolder input;
        std::ofstream(input.path() + "/sample.png", std::ios::binary) << encode_png({width, 1}, gradient({width, 1}));
        config_.input = input.path();
        return test::results_of(processor, config_, contents);
    }
    std::vector<std::uint8_t> mask_of(const SlabContents& contents) {
        const std::string file = run_over("mask-png", contents).at("sample.png");
        return test::decode_png(std::as_bytes(std::span(file))).ids;
    }
    std::vector<int> alpha_of(const SlabContents& contents) {
        const std::string file = run_over("cut-out", contents).at("sample.png");
        std::vector<int> alpha;
        for (const auto& pixel : test::decode_rgba_png(std::as_bytes(std::span(file))).pixels)
            alpha.push_back(pixel[3]);
        return alpha;
    }

    RunConfig config_;
};

TEST_F(OneChannel, AProbabilityIsForegroundFromTheThreshold) {
    const HandMade made = sample_of({0, 0.25F, 0.5F, 0.75F, 1});
    EXPECT_THAT(mask_of(made.contents), ElementsAre(0, 0, 1, 1, 1));
    config_.threshold = 0.75;
    EXPECT_THAT(mask_of(made.contents), ElementsAre(0, 0, 0, 1, 1));
    config_.scores = "probability";
    config_.threshold = 0;
    EXPECT_THAT(mask_of(made.contents), ElementsAre(1, 1, 1, 1, 1));
}

TEST_F(OneChannel, ALogitIsForegroundFromTheThresholdsLogit) {
    config_.scores = "logit";
    const HandMade made = sample_of({-9, -0.1F, 0, 1, 2, 9});
    EXPECT_THAT(mask_of(made.contents), ElementsAre(0, 0, 1, 1, 1, 1));
    config_.threshold = 0.8;  // log(0.8 / 0.2) is 1.386
    EXPECT_THAT(mask_of(made.contents), ElementsAre(0, 0, 0, 0, 1, 1));
}

TEST_F(OneChannel, TheProbabilityIsTheAlphaOfACutOut) {
    EXPECT_THAT(alpha_of(sample_of({0, 0.25F, 0.5F, 0.75F, 1}).contents), ElementsAre(0, 64, 128, 191, 255));
    config_.scores = "logit";
    EXPECT_THAT(alpha_of(sample_of({-20, -1, 0, 1, 20}).contents), ElementsAre(0, 69, 128, 186, 255));
    constexpr float kInf = std::numeric_limits<float>::infinity();
    EXPECT_THAT(alpha_of(sample_of({-kInf, kInf}).contents), ElementsAre(0, 255));
}

TEST_F(OneChannel, Handles16BitAndEnlargedValues) {
    HandMade made = sample_of({0.2F, 0.6F});
    made.contents.tensors[0].spec.dtype = kFloat16;
    made.contents.tensors[0].bytes = made.contents.tensors[0].bytes.first(4);
    const std::uint16_t halves[] = {0x3266, 0x38cd};
    std::memcpy(made.storage[0].data(), halves, sizeof halves);
    EXPECT_THAT(mask_of(made.contents), ElementsAre(0, 1));
    HandMade small = sample_of({0, 1});  // enlarged: 0, 0.25, 0.75, 1
    small.contents.transform = OutputTransform::LowRes;
    small.contents.upsample_factor = 2;
    // The original is one line, like half of the enlarged ones.
    small.contents.tensors[0].spec.shape[2] = 1;
    config_.catalogue.put("mask-size", "model");
    EXPECT_THAT(mask_of(small.contents), ElementsAre(0, 0, 1, 1, 0, 0, 1, 1));
}

TEST_F(OneChannel, RecordsAndRunLengthsCountTheForeground) {
    config_.processor = "records";
    const HandMade made = sample_of({0.1F, 0.2F, 0.9F, 0.8F});
    const ScratchFolder input;
    std::ofstream(input.path() + "/sample.png", std::ios::binary) << encode_png({4, 1}, gradient({4, 1}));
    config_.input = input.path();
    RecordRows rows({.settings = config_.catalogue, .input = config_, .results = config_}, "records");
    EXPECT_EQ(rows.of(made.contents, test::kNoProgress).front().classes, R"({"0":0.5,"1":0.5})");
    bool found = false;
    for (const auto& [name, lines] : run_over("mask-rle", made.contents))
        found = found || lines.find(R"("category_id":1,"area":2,"bbox":[2,0,2,1])") != std::string::npos;
    EXPECT_TRUE(found);
}

// The producer's ScoreReview keeps these items from consumers.
TEST_F(OneChannel, NaNIsBackground) {
    EXPECT_THAT(mask_of(sample_of({1, NAN}).contents), ElementsAre(1, 0));
    EXPECT_THAT(alpha_of(sample_of({1, NAN}).contents), ElementsAre(255, 0));
    config_.scores = "logit";
    EXPECT_THAT(alpha_of(sample_of({20, NAN}).contents), ElementsAre(255, 0));
}

TEST_F(OneChannel, AcceptsRoundingBeyondTheRange) {
    EXPECT_THAT(mask_of(sample_of({-0.003F, 1.004F}).contents), ElementsAre(0, 1));
    EXPECT_THAT(alpha_of(sample_of({-0.003F, 1.004F}).contents), ElementsAre(0, 255));
}

}  // namespace
}  // namespace offramp
