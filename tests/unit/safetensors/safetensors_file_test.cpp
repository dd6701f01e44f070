#include "common/safetensors/safetensors_file.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>

#include "common/base/error.hpp"
#include "tests/support/error_of.hpp"

namespace offramp {
namespace {

using testing::HasSubstr;

const SafetensorsWords kWords{.what = "the weights", .hint = "Make it again", .hint_of_zip = "Convert it"};

// A file of one test; removed at its end.
class WeightFile : public testing::Test {
  protected:
    void TearDown() override { std::filesystem::remove(path_); }

    void write_bytes(const std::string& bytes) { std::ofstream(path_, std::ios::binary) << bytes; }

    void write(const std::string& header, std::size_t data_bytes) {
        const std::uint64_t length = header.size();
        std::string bytes(sizeof length, '\0');
        std::memcpy(bytes.data(), &length, sizeof length);
        bytes += header;
        for (std::size_t i = 0; i < data_bytes; ++i) bytes += static_cast<char>(i);
        write_bytes(bytes);
    }

    std::string path_ = testing::TempDir() + "safetensors_test." + std::to_string(::getpid()) + ".safetensors";
};

TEST_F(WeightFile, ReadsTheTensorsOfTheHeader) {
    write(
        R"({"__metadata__":{"by":"hand"},"b":{"dtype":"F32","shape":[2,1],"data_offsets":[2,10]},)"
        R"("a":{"dtype":"BF16","shape":[],"data_offsets":[0,2]},"none":{"dtype":"I64","shape":[0,3],"data_offsets":[10,10]}})",
        10);
    const SafetensorsFile file(path_, kWords);
    ASSERT_EQ(file.tensors().size(), 3U);
    EXPECT_EQ(describe(*file.find("b")), "F32 [2, 1]");
    EXPECT_EQ(describe(*file.find("a")), "BF16 []");
    EXPECT_EQ(file.find("b")->bytes.size(), 8U);
    EXPECT_EQ(file.find("b")->bytes.front(), std::byte{2});
    EXPECT_TRUE(file.find("none")->bytes.empty());
    EXPECT_EQ(file.find("c"), nullptr);
    EXPECT_EQ(file.metadata().at("by"), "hand");
}

TEST_F(WeightFile, RecognisesAZipArchive) {
    write_bytes("PK\x03\x04" + std::string(100, 'x'));
    EXPECT_THAT(test::error_of<ConfigError>([&] { const SafetensorsFile file(path_, kWords); }, ErrorKind::BadInput),
                testing::AllOf(HasSubstr("it is a ZIP archive, as torch.save writes it"), HasSubstr("Convert it")));
}

TEST_F(WeightFile, ReportsAbsentFile) {
    EXPECT_THAT(test::error_of<SystemError>([&] { const SafetensorsFile file("/nowhere/weights.safetensors", kWords); },
                                            ErrorKind::BadInput),
                HasSubstr("/nowhere/weights.safetensors"));
}

TEST_F(WeightFile, RefusesFolder) { EXPECT_THROW(SafetensorsFile(testing::TempDir(), kWords), ConfigError); }

TEST_F(WeightFile, RefusesFileTooShortForItsLength) {
    for (const std::string bytes : {"", "1234567", "12345678"}) {
        write_bytes(bytes);
        EXPECT_THROW(SafetensorsFile(path_, kWords), ConfigError) << bytes.size() << " bytes";
    }
}

TEST_F(WeightFile, RefusesHeaderBeyondTheFile) {
    for (const std::uint64_t length :
         {std::uint64_t{100}, std::uint64_t{1} << 40, ~std::uint64_t{0}, ~std::uint64_t{0} - 7}) {
        std::string bytes(sizeof length, '\0');
        std::memcpy(bytes.data(), &length, sizeof length);
        write_bytes(bytes + "{}");
        EXPECT_THROW(SafetensorsFile(path_, kWords), ConfigError) << length;
    }
}

struct BrokenFile {
    const char* why;
    const char* header;
    std::size_t data_bytes;
    const char* complaint;
};

class BrokenWeightFile : public WeightFile, public testing::WithParamInterface<BrokenFile> {};

TEST_P(BrokenWeightFile, IsRefusedWithItsReason) {
    write(GetParam().header, GetParam().data_bytes);
    EXPECT_THAT(test::error_of<ConfigError>([&] { const SafetensorsFile file(path_, kWords); }, ErrorKind::BadInput),
                testing::AllOf(HasSubstr(GetParam().complaint), HasSubstr(path_)))
        << GetParam().why;
}

constexpr BrokenFile kBrokenFiles[] = {
    {"NoJson", "{\"a\":", 4, "not JSON"},
    {"NotUtf8", "{\"\xff\xfe\":1}", 4, "not JSON"},
    {"List", "[]", 4, "not a JSON object"},
    {"NameTwice",
     R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})", 4,
     "named twice"},
    {"MetadataIsList", R"({"__metadata__":[]})", 4, "__metadata__ is not an object"},
    {"MetadataIsNumber", R"({"__metadata__":{"n":7}})", 4, "'n' is not text"},
    {"EntryIsNumber", R"({"a":7})", 4, "no description"},
    {"NoDtype", R"({"a":{"shape":[1],"data_offsets":[0,4]}})", 4, "no 'dtype'"},
    {"DtypeIsNumber", R"({"a":{"dtype":32,"shape":[1],"data_offsets":[0,4]}})", 4, "no 'dtype'"},
    {"UnknownDtype", R"({"a":{"dtype":"F31","shape":[1],"data_offsets":[0,4]}})", 4, "unknown dtype 'F31'"},
    {"NoShape", R"({"a":{"dtype":"F32","data_offsets":[0,4]}})", 4, "no list 'shape'"},
    {"NegativeShape", R"({"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})", 4, "'shape' [-1]"},
    {"FractionalShape", R"({"a":{"dtype":"F32","shape":[1.5],"data_offsets":[0,4]}})", 4, "'shape' [1.5]"},
    {"OverflowingShape", R"({"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]}})", 0,
     "beyond any memory"},
    {"NoOffsets", R"({"a":{"dtype":"F32","shape":[1]}})", 4, "no list 'data_offsets'"},
    {"NegativeOffset", R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[-4,0]}})", 4, "'data_offsets' [-4,0]"},
    {"HugeOffset", R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[18446744073709551612,18446744073709551615]}})", 4,
     "2^62"},
    {"OneOffset", R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0]}})", 4, "data_offsets [0]"},
    {"BackwardOffsets", R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}})", 4, "data_offsets [4,0]"},
    {"Truncated", R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", 7, "holds 7 bytes"},
    {"ShapeLargerThanBytes", R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", 4, "takes 8 bytes"},
    {"DtypeSmallerThanBytes", R"({"a":{"dtype":"F16","shape":[1],"data_offsets":[0,4]}})", 4, "takes 2 bytes"},
    {"Overlap",
     R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}})",
     12, "tensor 'b' overlaps"},
    {"SameBytesTwice",
     R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"b":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})",
     4, "overlaps"},
    {"Hole",
     R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"b":{"dtype":"F32","shape":[1],"data_offsets":[8,12]}})",
     12, "4 unused bytes"},
    {"TrailingBytes", R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", 9, "5 bytes at its end"},
};
INSTANTIATE_TEST_SUITE_P(Safetensors, BrokenWeightFile, testing::ValuesIn(kBrokenFiles),
                         [](const auto& parameter) { return std::string(parameter.param.why); });

}  // namespace
}  // namespace offramp
