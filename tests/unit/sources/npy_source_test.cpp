#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstring>
#include <filesystem>
#include <limits>

#include "common/app/images/unreadable_item.hpp"
#include "common/base/error.hpp"
#include "producer/runner/sources/npy_file.hpp"
#include "producer/runner/sources/source_items.hpp"
#include "tests/unit/sources/making.hpp"
#include "tests/unit/sources/npy_bytes.hpp"

namespace offramp {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

using test::bytes_of;
using test::counting;
using test::npy;

struct NpyArray : ::testing::Test {
    NpyArray() { config.model = "encoder"; }

    std::unique_ptr<BatchSource> make(const std::string& file) {
        config.input = folder.write("array.npy", file);
        return test::make_source("npy", config, input, takes_images);
    }
    std::string error(const std::string& file, ErrorKind code = ErrorKind::BadInput) {
        try {
            make(file);
        } catch (const ConfigError& refused) {
            EXPECT_EQ(refused.kind(), code) << refused.what();
            return refused.what();
        }
        return "it was made";
    }
    std::vector<float> floats(BatchSource& source, std::uint64_t item) {
        std::vector<float> row(input.row_bytes() / 4);
        source.load(item, std::as_writable_bytes(std::span(row)));
        return row;
    }
    static TensorSpec takes(std::vector<std::int64_t> shape) {
        return TensorSpec::contiguous("input", kFloat32, shape);
    }

    TempFolder folder;
    RunConfig config;
    TensorSpec input = takes({8, 2, 3});
    bool takes_images = false;
};

TEST_F(NpyArray, GivesItsRowsAsTheModelsInput) {
    const auto source = make(npy("<f4", "(4, 2, 3)", bytes_of(counting(24))));
    EXPECT_EQ(source->items(), 4U);
    EXPECT_EQ(source->row_kind(), RowKind::Float32);
    EXPECT_EQ(source->key(3), "");
    EXPECT_EQ(source->max_key_bytes(), 0U);
    for (std::uint64_t item = 0; item < 4; ++item)
        EXPECT_EQ(floats(*source, item), counting(6, 6.0F * static_cast<float>(item)));
    EXPECT_EQ(source->description(), "npy: 4 rows of [2, 3] <f4 in " + folder / "array.npy");
    EXPECT_EQ(source->origin(2), folder / "array.npy row 2");
}

TEST_F(NpyArray, WidensHalfFloats) {
    const std::vector<std::uint16_t> halves{0x0000, 0x8000, 0x3c00, 0xc000, 0x7bff, 0x0001,
                                            0x0400, 0x7c00, 0xfc00, 0x3555, 0x83ff, 0x7e00};
    const auto source = make(npy("<f2", "(2, 2, 3)", bytes_of(halves)));
    EXPECT_THAT(floats(*source, 0), ElementsAre(0.0F, -0.0F, 1.0F, -2.0F, 65504.0F, 0x1p-24F));
    const auto second = floats(*source, 1);
    constexpr float kInfinity = std::numeric_limits<float>::infinity();
    EXPECT_THAT(std::vector<float>(second.begin(), second.end() - 1),
                ElementsAre(0x1p-14F, kInfinity, -kInfinity, 0x1.554p-2F, -0x1.ff8p-15F));
    EXPECT_NE(second[5], second[5]);
}

TEST_F(NpyArray, BytesAreNumbersForAModelWithoutPictures) {
    EXPECT_THAT(floats(*make(npy("|u1", "(1, 2, 3)", std::string("\x00\x01\x7f\x80\xfe\xff", 6))), 0),
                ElementsAre(0, 1, 127, 128, 254, 255));
}

TEST_F(NpyArray, ConvertsRowsToTheModelsMemoryOrder) {
    input = takes({8, 3, 2, 2});
    input.strides = {12, 1, 6, 3};  // channels-last
    EXPECT_THAT(floats(*make(npy("<f4", "(1, 3, 2, 2)", bytes_of(counting(12)))), 0),
                ElementsAre(0, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11));
}

TEST_F(NpyArray, BytesArePixelsForAModelOfPictures) {
    const ImageSize size{4, 2};
    input = test::picture_input(size);
    takes_images = true;
    const Rgb pixels = gradient(size, 5);
    auto source = make(npy("|u1", "(1, 2, 4, 3)", bytes_of(pixels)));
    EXPECT_EQ(source->row_kind(), RowKind::Pixels);
    EXPECT_EQ(test::row_of(*source, 0, size), pixels);
    Rgb planes;
    for (std::size_t channel = 0; channel < 3; ++channel)
        for (std::size_t i = 0; i < size.pixels(); ++i) planes.push_back(pixels[3 * i + channel]);
    source = make(npy("|u1", "(1, 3, 2, 4)", bytes_of(planes)));
    EXPECT_EQ(source->row_kind(), RowKind::Pixels);
    EXPECT_EQ(test::row_of(*source, 0, size), pixels);
    EXPECT_EQ(make(npy("<f4", "(1, 3, 2, 4)", bytes_of(counting(24))))->row_kind(), RowKind::Float32);
}

TEST_F(NpyArray, ReadsRowsLargerThanABlock) {
    input = takes({2, 50'001});
    const std::vector<std::uint16_t> ones(100'002, 0x3c00);
    const auto source = make(npy("<f2", "(2, 50001)", bytes_of(ones)));
    EXPECT_EQ(floats(*source, 1), std::vector<float>(50'001, 1.0F));
}

TEST_F(NpyArray, DetectsOtherArraysOfTheSameShape) {
    const auto print = [&](const std::string& file) { return source_fingerprint(*make(file)); };
    const std::string previous = print(npy("<f4", "(200, 2, 3)", bytes_of(counting(1200))));
    EXPECT_EQ(print(npy("<f4", "(200, 2, 3)", bytes_of(counting(1200)))), previous);
    EXPECT_NE(print(npy("<f4", "(200, 2, 3)", bytes_of(counting(1200, 1)))), previous);
    EXPECT_NE(print(npy("<f4", "(199, 2, 3)", bytes_of(counting(1194)))), previous);
    EXPECT_NE(print(npy("<f2", "(200, 2, 3)", bytes_of(counting(600)))), previous);
}

TEST_F(NpyArray, SkipsItemsOfAShrinkingFile) {
    const auto source = make(npy("<f4", "(4, 2, 3)", bytes_of(counting(24))));
    std::filesystem::resize_file(folder / "array.npy", std::filesystem::file_size(folder / "array.npy") - 4);
    EXPECT_EQ(floats(*source, 2), counting(6, 12));
    EXPECT_THROW(floats(*source, 3), UnreadableItem);
}

TEST_F(NpyArray, RefusesANonFile) {
    const auto refusal = [&](const std::string& path, ErrorKind code) {
        config.input = path;
        try {
            test::make_source("npy", config, input, takes_images);
        } catch (const ConfigError& refused) {
            EXPECT_EQ(refused.kind(), code) << refused.what();
            return std::string(refused.what());
        }
        return std::string("it was made");
    };
    EXPECT_THAT(refusal("", ErrorKind::NoInput), HasSubstr("none is given"));
    EXPECT_EQ(refusal("/no/array.npy", ErrorKind::NoInput),
              "--input '/no/array.npy': cannot be opened: No such file or directory. It must be a .npy file that this "
              "user may read");
    EXPECT_THAT(refusal(folder.path().string(), ErrorKind::NoInput), HasSubstr("no .npy file in this folder"));
    ASSERT_EQ(::mkfifo((folder / "p.npy").c_str(), 0644), 0);
    EXPECT_THAT(refusal(folder / "p.npy", ErrorKind::BadInput), HasSubstr("not a regular file"));
    EXPECT_THAT(refusal("/proc/self/mem", ErrorKind::BadInput), HasSubstr("not a valid .npy file"));
}

TEST_F(NpyArray, RefusesAMismatchWithBothShapes) {
    EXPECT_THAT(error(npy("<f4", "(4, 3, 2)", bytes_of(counting(24)))),
                AllOf(HasSubstr("<f4 [4, 3, 2]"), HasSubstr("rows of [3, 2]"), HasSubstr("takes [2, 3]")));
    EXPECT_THAT(error(npy("<f4", "(24,)", bytes_of(counting(24)))), HasSubstr("rows of []"));
    EXPECT_THAT(error(npy("<f8", "(4, 2, 3)", "")), AllOf(HasSubstr("<f8"), HasSubstr("astype")));
    EXPECT_THAT(error(npy(">f4", "(4, 2, 3)", "")), HasSubstr(">f4"));
    EXPECT_THAT(error(npy("<f4", "(4, 2, 3)", bytes_of(counting(24)), "True")),
                AllOf(HasSubstr("Fortran"), HasSubstr("ascontiguousarray")));
    EXPECT_THAT(error(npy("<f4", "(0, 2, 3)", ""), ErrorKind::NoInput), HasSubstr("no rows"));
    EXPECT_THAT(error(npy("<f4", "()", "1234"), ErrorKind::NoInput), HasSubstr("no rows"));
    input.dtype = kInt32;
    EXPECT_THAT(error(npy("<f4", "(4, 2, 3)", bytes_of(counting(24))), ErrorKind::Usage),
                HasSubstr("takes input int32 [8, 2, 3]"));
    takes_images = true;
    input = test::picture_input({64, 64});
    EXPECT_THAT(error(npy("<f4", "(1, 3, 32, 32)", bytes_of(counting(3072)))), HasSubstr("--image-size"));
    input = {};
    EXPECT_THAT(error(npy("<f4", "(4, 2, 3)", bytes_of(counting(24))), ErrorKind::Usage), HasSubstr("takes none"));
}

TEST_F(NpyArray, RefusesATruncatedFileAtTheStart) {
    const std::string whole = npy("<f4", "(4, 2, 3)", bytes_of(counting(24)));
    EXPECT_THAT(error(whole.substr(0, whole.size() - 1)),
                AllOf(HasSubstr("4 rows of 24 bytes"), HasSubstr("3 whole ones")));
    EXPECT_THAT(error(npy("<f4", "(9000000000000000000, 2, 3)", "x")), HasSubstr("truncated"));
    for (std::size_t kept = 0; kept < 80; ++kept)
        EXPECT_THAT(error(whole.substr(0, kept)), HasSubstr("not a valid .npy file")) << kept;
    config.input = folder / "none.npy";
    EXPECT_THROW(test::make_source("npy", config, input, false), ConfigError);
    config.input = folder.path().string();
    EXPECT_THROW(test::make_source("npy", config, input, false), ConfigError);
}

TEST(NpyHeaderText, IsReadInAllItsForms) {
    const auto read = [](std::string header, int version = 1) {
        std::string file("\x93NUMPY", 6);
        file += static_cast<char>(version);
        file += '\0';
        for (int i = 0; i < (version == 1 ? 2 : 4); ++i) file += static_cast<char>((header.size() >> (8 * i)) & 0xff);
        file += header;
        return read_npy_header(std::as_bytes(std::span(file)));
    };
    for (const int version : {1, 2, 3}) {
        const NpyHeader header = read("{'descr': '<f4', 'fortran_order': False, 'shape': (7, 2), }   \n", version);
        EXPECT_EQ(header.descr, "<f4");
        EXPECT_FALSE(header.fortran_order);
        EXPECT_THAT(header.shape, ElementsAre(7, 2));
    }
    EXPECT_THAT(read("{\"shape\":(5,),\"fortran_order\":True,\"descr\":\"|u1\"}").shape, ElementsAre(5));
    for (const char* const bad : {"", "{}", "{'descr': '<f4', 'fortran_order': False, 'shape': (7, 2)",
                                  "{'descr': '<f4', 'fortran_order': False, 'shape': (-7, 2)}",
                                  "{'descr': '<f4', 'fortran_order': 0, 'shape': (7,)}",
                                  "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (7,)}",
                                  "{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (7,)}",
                                  "{'descr': '<f4', 'fortran_order': False, 'shape': (7 2)}",
                                  "{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,)}",
                                  "{'descr': '<f4', 'fortran_order': False, 'shape': (7,)} x"})
        EXPECT_THROW(read(bad), ConfigError) << bad;
    EXPECT_THROW(read("{'descr': '<f4', 'fortran_order': False, 'shape': (7, 2), }", 4), ConfigError);
}

}  // namespace
}  // namespace offramp
