#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>

#include "common/app/images/unreadable_item.hpp"
#include "common/base/error.hpp"
#include "producer/runner/sources/normal_noise.hpp"
#include "producer/runner/sources/source_items.hpp"
#include "tests/support/error_of.hpp"
#include "tests/unit/sources/making.hpp"
#include "tests/unit/sources/npy_bytes.hpp"

namespace offramp {
namespace {

using test::bytes_of;
using test::counting;
using test::npy;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Three arrays: features float32 [2, 3], ids int64 [2], flag bool.
struct NpyFolder : ::testing::Test {
    NpyFolder() {
        config.model = "net.pt2";
        config.input = folder.path().string();
        folder.write("features.npy", npy("<f4", "(3, 2, 3)", bytes_of(counting(18))));
        folder.write("ids.npy", npy("<i8", "(3, 2)", bytes_of(std::vector<std::int64_t>{1, -2, 3, 1LL << 40, 5, 6})));
        folder.write("flag.npy", npy("|b1", "(3,)", std::string("\x01\x00\x07", 3)));
    }

    std::unique_ptr<BatchSource> make() {
        const std::int64_t shape[] = {8, static_cast<std::int64_t>(part_row_bytes(parts()))};
        return test::make_source("npy", config, TensorSpec::contiguous("inputs", kUInt8, shape), false, parts());
    }
    std::vector<InputPart> parts() const { return lay_out_parts(inputs, 8); }

    std::string error(ErrorKind code) {
        return test::error_of<ConfigError>([&] { make(); }, code);
    }

    // The numbers of one part of a row.
    template <class Number>
    std::vector<Number> part(std::span<const std::byte> row, std::size_t which) const {
        const InputPart place = parts()[which];
        std::vector<Number> numbers(place.tensor.row_bytes() / sizeof(Number));
        std::memcpy(numbers.data(), row.data() + place.offset, place.tensor.row_bytes());
        return numbers;
    }
    std::vector<std::byte> row(BatchSource& source, std::uint64_t item) const {
        std::vector<std::byte> bytes(part_row_bytes(parts()));
        source.load(item, bytes);
        return bytes;
    }

    TempFolder folder;
    RunConfig config;
    std::vector<InputMetadata> inputs{{.name = "features", .tokens = {}, .shape = {2, 3}, .dtype = kFloat32},
                                      {.name = "ids", .tokens = {}, .shape = {2}, .dtype = kInt64},
                                      {.name = "flag", .tokens = {}, .shape = {}, .dtype = kBool}};
};

TEST_F(NpyFolder, ARowCombinesTheRowsOfAllFiles) {
    const auto source = make();
    EXPECT_EQ(source->items(), 3U);
    EXPECT_EQ(source->row_kind(), RowKind::Arrays);
    EXPECT_EQ(source->description(), "npy: 3 rows of features.npy, ids.npy, flag.npy in " + config.input);
    EXPECT_EQ(source->origin(2), config.input + " row 2");
    for (std::uint64_t item = 0; item < 3; ++item)
        EXPECT_EQ(part<float>(row(*source, item), 0), counting(6, 6.0F * static_cast<float>(item)));
    EXPECT_THAT(part<std::int64_t>(row(*source, 0), 1), ElementsAre(1, -2));
    EXPECT_THAT(part<std::int64_t>(row(*source, 1), 1), ElementsAre(3, 1LL << 40));
    EXPECT_THAT(part<std::uint8_t>(row(*source, 1), 2), ElementsAre(0));
    EXPECT_THAT(part<std::uint8_t>(row(*source, 2), 2), ElementsAre(1)) << "a bool is 0 or 1 for any byte in the file";
}

TEST_F(NpyFolder, WidensOrKeepsHalfFloats) {
    const std::vector<std::uint16_t> halves{0x3c00, 0xc000, 0x7bff, 0x0001, 0x0400, 0x3555};
    folder.write("features.npy", npy("<f2", "(1, 2, 3)", bytes_of(halves)));
    inputs.resize(1);
    EXPECT_THAT(part<float>(row(*make(), 0), 0), ElementsAre(1.0F, -2.0F, 65504.0F, 0x1p-24F, 0x1p-14F, 0x1.554p-2F));
    inputs[0].dtype = kFloat16;
    EXPECT_EQ(part<std::uint16_t>(row(*make(), 0), 0), halves);
    inputs[0] = {.name = "features", .tokens = {}, .shape = {20'001}, .dtype = kFloat32};
    folder.write("features.npy", npy("<f2", "(2, 20001)", bytes_of(std::vector<std::uint16_t>(40'002, 0x3c00))));
    EXPECT_EQ(part<float>(row(*make(), 1), 0), std::vector<float>(20'001, 1.0F));
}

TEST_F(NpyFolder, OtherNumbersInAnyFileChangeTheFingerprint) {
    const std::string previous = source_fingerprint(*make());
    EXPECT_EQ(source_fingerprint(*make()), previous);
    folder.write("flag.npy", npy("|b1", "(3,)", std::string("\x01\x01\x01", 3)));
    EXPECT_NE(source_fingerprint(*make()), previous);
}

TEST_F(NpyFolder, RefusesAMismatchWithFileFoundAndExpected) {
    folder.write("ids.npy", npy("<i4", "(3, 2)", std::string(24, '\0')));
    EXPECT_THAT(error(ErrorKind::BadInput),
                AllOf(HasSubstr("ids.npy': its elements are <i4"), HasSubstr("the input 'ids'"),
                      HasSubstr("takes int64"), HasSubstr("astype('<i8')")));
    folder.write("ids.npy", npy("<i8", "(3, 3)", std::string(72, '\0')));
    EXPECT_THAT(error(ErrorKind::BadInput), AllOf(HasSubstr("rows of [3]"), HasSubstr("takes [2]")));
    folder.write("ids.npy", npy("<i8", "(2, 2)", std::string(32, '\0')));
    EXPECT_THAT(error(ErrorKind::BadInput),
                AllOf(HasSubstr("ids.npy': it has 2 rows"), HasSubstr("features.npy' has 3")));
    folder.write("ids.npy", npy("<i8", "(3, 2)", std::string(47, '\0')));
    EXPECT_THAT(error(ErrorKind::BadInput), HasSubstr("truncated"));
    std::filesystem::remove(folder / "ids.npy");
    EXPECT_THAT(error(ErrorKind::NoInput),
                AllOf(HasSubstr("has no ids.npy"), HasSubstr("features.npy, ids.npy, flag.npy")));
    config.input = folder / "features.npy";
    EXPECT_THAT(error(ErrorKind::NoInput),
                AllOf(HasSubstr("is not a folder"), HasSubstr("features.npy, ids.npy, flag.npy")));
    config.input.clear();
    EXPECT_THAT(error(ErrorKind::NoInput), HasSubstr("none is given"));
}

TEST_F(NpyFolder, SkipsItemsOfAShrinkingFile) {
    const auto source = make();
    std::filesystem::resize_file(folder / "ids.npy", std::filesystem::file_size(folder / "ids.npy") - 4);
    EXPECT_NO_THROW(row(*source, 1));
    EXPECT_THROW(row(*source, 2), UnreadableItem);
}

TEST_F(NpyFolder, SyntheticRowsAreNoiseForFloatsElseZeros) {
    inputs.push_back({.name = "half", .tokens = {}, .shape = {2}, .dtype = kFloat16});
    inputs.push_back({.name = "double", .tokens = {}, .shape = {1}, .dtype = kFloat64});
    const NormalNoise noise(3);
    std::vector<std::byte> bytes(part_row_bytes(parts()), std::byte{0xff});
    fill_synthetic_row(noise, 7, parts(), bytes);
    std::vector<float> wanted(9);
    noise.fill(7, wanted);
    EXPECT_EQ(part<float>(bytes, 0), std::vector<float>(wanted.begin(), wanted.begin() + 6));
    EXPECT_THAT(part<std::int64_t>(bytes, 1), ElementsAre(0, 0));
    EXPECT_THAT(part<std::uint8_t>(bytes, 2), ElementsAre(0));
    EXPECT_NE(part<std::uint16_t>(bytes, 3)[0], 0);
    EXPECT_THAT(part<double>(bytes, 4), ElementsAre(wanted[8]));

    config.batches = 2;
    config.batch = 8;
    config.synthetic_on = "host";
    const std::int64_t shape[] = {8, static_cast<std::int64_t>(bytes.size())};
    const auto source =
        test::make_source("synthetic", config, TensorSpec::contiguous("inputs", kUInt8, shape), false, parts());
    EXPECT_EQ(source->row_kind(), RowKind::Arrays);
    EXPECT_NE(part<float>(row(*source, 0), 0), part<float>(row(*source, 1), 0));
    EXPECT_THAT(part<std::int64_t>(row(*source, 1), 1), ElementsAre(0, 0));
}

}  // namespace
}  // namespace offramp
