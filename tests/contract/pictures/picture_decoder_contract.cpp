// Pictures that a GPU decodes, turns upright and resizes, beside those of the CPU.
#include "producer/runner/ingest/picture_decoder.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <cstdlib>
#include <random>

#include "common/app/images/image_decode.hpp"
#include "producer/runner/kernels/gpu_runtime.hpp"
#include "tests/contract/device/device_contract.hpp"
#include "tests/unit/images/jpeg_files.hpp"
#include "tests/unit/images/picture_files.hpp"

namespace offramp {

std::vector<std::string> devices_under_test() { return {"cuda"}; }

namespace {

constexpr Orientation kOrientations[] = {Orientation::Upright,    Orientation::MirrorAcross,
                                         Orientation::HalfTurn,   Orientation::MirrorUpsideDown,
                                         Orientation::Transpose,  Orientation::QuarterClockwise,
                                         Orientation::Transverse, Orientation::QuarterCounterclockwise};

struct PictureDecoderContract : DeviceContract {
    // Rows of pixels, of the frames' one size, and which of them were refused.
    struct Rows {
        std::vector<Rgb> pixels;
        std::vector<std::size_t> refused;
    };

    static EncodedPicture encoded(const std::string& file, const PictureFrame& frame,
                                  Orientation orientation = Orientation::Upright) {
        const auto bytes = std::as_bytes(std::span(file));
        const auto found = WholeJpegCheck()(bytes);
        if (!found) throw std::runtime_error("not a plain JPEG");
        EncodedPicture picture{
            .file = {bytes.begin(), bytes.end()}, .stored = found->size, .orientation = orientation, .frame = frame};
        return picture;
    }

    Rows decode(PictureDecoder& decoder, const std::vector<EncodedPicture>& pictures) {
        const std::size_t row_bytes = pictures.front().frame.size.rgb_bytes();
        const auto rows = device().allocate(row_bytes * pictures.size(), "rows");
        const auto stream = device().make_stream("decode");
        Rows made{.pixels = {}, .refused = decoder.submit(*stream, pictures, rows->data(), row_bytes)};
        stream->synchronize();
        const std::vector<std::byte> bytes = download(*rows);
        for (std::size_t row = 0; row < pictures.size(); ++row) {
            const auto* const begin = reinterpret_cast<const std::uint8_t*>(bytes.data()) + row * row_bytes;
            made.pixels.emplace_back(begin, begin + row_bytes);
        }
        return made;
    }

    static Rgb on_cpu(const EncodedPicture& picture) {
        Rgb rgb(picture.frame.size.rgb_bytes());
        ImageDecoder().decode(picture.file, picture.frame, std::as_writable_bytes(std::span(rgb)));
        return rgb;
    }
};

struct Difference {
    double mean = 0;
    int largest = 0;
};

Difference difference(const Rgb& one, const Rgb& other) {
    Difference found;
    for (std::size_t i = 0; i < one.size(); ++i) {
        const int each = std::abs(one[i] - other[i]);
        found.mean += each;
        found.largest = std::max(found.largest, each);
    }
    found.mean /= static_cast<double>(one.size());
    return found;
}

std::vector<JpegTables> kinds() {
    return {{.quality = 95},          {.own_codes = true},      {.quality = 60, .restart_blocks = 4},
            {.across = 2, .down = 1}, {.across = 1, .down = 1}, {.gray = true}};
}

TEST_P(PictureDecoderContract, GivesPicturesLikeTheCpus) {
    PictureDecoder decoder(device());
    for (const JpegTables& tables : kinds())
        for (const ImageSize size : {ImageSize{64, 64}, {65, 67}, {201, 133}, {640, 480}, {1023, 769}, {3000, 4000}}) {
            const EncodedPicture picture = encoded(encode_jpeg(size, gradient(size), tables), size);
            const Rows rows = decode(decoder, {picture});
            ASSERT_TRUE(rows.refused.empty());
            const Difference found = difference(rows.pixels[0], on_cpu(picture));
            EXPECT_LT(found.mean, 1.5) << size.width << " x " << size.height;
            EXPECT_LT(found.largest, tables.gray || tables.across == 1 ? 6 : 40) << size.width << " x " << size.height;
        }
}

// The pixels that the decoder gives, turned and resized by the CPU, are the GPU's to the bit.
TEST_P(PictureDecoderContract, TurnsAndResizesToTheBit) {
    PictureDecoder decoder(device());
    std::mt19937 random(3);
    for (const ImageSize stored : {ImageSize{97, 71}, {640, 427}, {1200, 64}})
        for (const Orientation orientation : kOrientations) {
            const std::string file = encode_jpeg(stored, noise(stored), JpegTables{.quality = 95});
            const ImageSize upright = upright_size(stored, orientation);
            const Rgb all = decode(decoder, {encoded(file, stored)}).pixels[0];
            Rgb turned(upright.rgb_bytes());
            bring_upright(all.data(), stored, orientation, turned.data());
            for (const Interpolation way : {Interpolation::Bilinear, Interpolation::Bicubic})
                for (int round = 0; round < 4; ++round) {
                    const auto side = static_cast<std::uint32_t>(16 + random() % 300);
                    const auto other = static_cast<std::uint32_t>(16 + random() % 300);
                    const bool cut = round % 2 == 1;
                    const PictureFrame frame =
                        cut ? PictureFrame({side, side}, side + static_cast<std::uint32_t>(random() % 50), way)
                            : PictureFrame({side, other}, 0, way);
                    Rgb wanted(frame.size.rgb_bytes());
                    Resizer().resize_part(turned.data(), upright, frame.part_of(upright), wanted.data(), frame.size,
                                          way);
                    ASSERT_EQ(decode(decoder, {encoded(file, frame, orientation)}).pixels[0], wanted)
                        << "orientation " << static_cast<int>(orientation) << ", " << side << " x " << other;
                }
        }
}

TEST_P(PictureDecoderContract, DecodesLargeBatchesOfDifferentPictures) {
    PictureDecoder decoder(device());
    constexpr ImageSize kRow{160, 120};
    std::vector<EncodedPicture> pictures;
    for (unsigned i = 0; i < 150; ++i) {
        const ImageSize size{100 + 7 * i, 80 + 5 * i};
        pictures.push_back(encoded(encode_jpeg(size, gradient(size, i), kinds()[i % kinds().size()]), kRow));
        if (i % 11 == 3) pictures.back().file.clear();  // a row that the CPU fills
    }
    const Rows rows = decode(decoder, pictures);
    EXPECT_TRUE(rows.refused.empty());
    for (std::size_t row = 0; row < pictures.size(); ++row) {
        if (pictures[row].file.empty()) continue;
        EXPECT_EQ(decode(decoder, {pictures[row]}).pixels[0], rows.pixels[row]) << row << " alone";
        EXPECT_LT(difference(rows.pixels[row], on_cpu(pictures[row])).mean, 4) << row;
    }
}

TEST_P(PictureDecoderContract, LeavesPicturesToTheCpuWithoutMemory) {
    PictureDecoder decoder(device());
    constexpr ImageSize kSmall{128, 128}, kLarge{6000, 5000};
    const EncodedPicture small = encoded(encode_jpeg(kSmall, gradient(kSmall), JpegTables{}), kSmall);
    const EncodedPicture large = encoded(encode_jpeg(kLarge, gradient(kLarge), JpegTables{}), kSmall);
    const Rgb wanted = decode(decoder, {small}).pixels[0];
    {
        std::vector<std::unique_ptr<DeviceBuffer>> taken;
        for (std::size_t bytes = std::size_t{64} << 30; bytes >= (std::size_t{16} << 20);) {
            try {
                taken.push_back(device().allocate(bytes, "all other memory"));
            } catch (const Error&) {
                bytes /= 2;
            }
        }
        const Rows rows = decode(decoder, {large});
        EXPECT_THAT(rows.refused, testing::ElementsAre(0U));
    }
    EXPECT_EQ(decode(decoder, {small}).pixels[0], wanted);
    EXPECT_TRUE(decode(decoder, {large}).refused.empty()) << "after the memory was given back";
}

TEST_P(PictureDecoderContract, AlsoDecodesWithoutJpegEngines) {
    const auto decoder = JpegDecoder::open(device(), JpegDecoder::Engine::Cores);
    constexpr ImageSize kSize{320, 200};
    const std::string file = encode_jpeg(kSize, gradient(kSize), JpegTables{});
    for (const std::size_t count : {std::size_t{1}, decoder->files_at_once()}) {
        const auto rows = device().allocate(kSize.rgb_bytes() * count, "rows");
        std::vector<JpegDecoder::Picture> pictures;
        for (std::size_t i = 0; i < count; ++i)
            pictures.push_back({.file = std::as_bytes(std::span(file)),
                                .width = kSize.width,
                                .rgb = reinterpret_cast<std::uint8_t*>(rows->data()) + i * kSize.rgb_bytes()});
        const auto stream = device().make_stream("decode");
        ASSERT_EQ(decoder->submit(*stream, pictures), "");
        stream->synchronize();
        const std::vector<std::byte> bytes = download(*rows);
        Rgb first(kSize.rgb_bytes());
        std::memcpy(first.data(), bytes.data(), first.size());
        EXPECT_LT(difference(first, on_cpu(encoded(file, kSize))).mean, 1.5);
        for (std::size_t i = 1; i < count; ++i)
            EXPECT_EQ(std::memcmp(bytes.data(), bytes.data() + i * first.size(), first.size()), 0) << i;
    }
}

// Damage that the check does not find is none to the CPU's decoder either: both make nearly the same of it.
TEST_P(PictureDecoderContract, MakesOfAcceptedDamageWhatTheCpuMakes) {
    PictureDecoder decoder(device());
    constexpr ImageSize kSize{160, 120};
    std::mt19937 random(17);
    std::vector<EncodedPicture> damaged;
    for (int round = 0; round < 20'000 && damaged.size() < 300; ++round) {
        std::string file =
            encode_jpeg(kSize, gradient(kSize), kinds()[static_cast<std::size_t>(round) % kinds().size()]);
        file[600 + random() % (file.size() - 600)] = static_cast<char>(random());
        if (!WholeJpegCheck()(std::as_bytes(std::span(file)))) continue;
        damaged.push_back(encoded(file, kSize));
    }
    ASSERT_GT(damaged.size(), 100U);
    const Rows rows = decode(decoder, damaged);
    EXPECT_TRUE(rows.refused.empty());
    for (std::size_t row = 0; row < damaged.size(); ++row)
        EXPECT_LT(difference(rows.pixels[row], on_cpu(damaged[row])).mean, 3) << row;
}

// Each picture is as it would be alone, whatever precedes it.
TEST_P(PictureDecoderContract, HasNoMemoryOfEarlierPictures) {
    PictureDecoder decoder(device());
    constexpr ImageSize kRow{96, 96};
    std::vector<EncodedPicture> pictures;
    for (unsigned i = 0; i < 24; ++i) {
        const ImageSize size{64 + 9 * i, 300 - 7 * i};
        pictures.push_back(encoded(encode_jpeg(size, noise(size), kinds()[i % kinds().size()]), kRow,
                                   kOrientations[i % std::size(kOrientations)]));
    }
    std::vector<Rgb> alone;
    for (const EncodedPicture& picture : pictures) {
        PictureDecoder fresh(device());
        alone.push_back(decode(fresh, {picture}).pixels[0]);
    }
    std::mt19937 random(11);
    for (int round = 0; round < 40; ++round) {
        std::vector<std::size_t> order(1 + random() % 50);
        std::vector<EncodedPicture> some;
        for (std::size_t& each : order) some.push_back(pictures[each = random() % pictures.size()]);
        const Rows rows = decode(decoder, some);
        for (std::size_t row = 0; row < order.size(); ++row) ASSERT_EQ(rows.pixels[row], alone[order[row]]);
    }
}

INSTANTIATE_TEST_SUITE_P(Gpu, PictureDecoderContract, testing::ValuesIn(devices_under_test()), device_name);

}  // namespace
}  // namespace offramp
