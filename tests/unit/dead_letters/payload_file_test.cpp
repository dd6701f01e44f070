#include "common/dead_letters/payload_file.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "common/base/error.hpp"
#include "tests/support/error_of.hpp"
#include "tests/unit/dead_letters/filled_slab.hpp"

namespace offramp {
namespace {

using testing::HasSubstr;

class Payload : public testing::Test {
  protected:
    Payload() { std::filesystem::create_directories(folder_); }
    ~Payload() override { std::filesystem::remove_all(folder_); }

    // A file with this metadata and the tensors of the slab.
    void write_with_metadata(const std::string& metadata) { write_with_metadata(metadata, slab_.contents()); }
    void write_with_metadata(const std::string& metadata, const SlabContents& slab) {
        const std::string front = safetensors_header(tensor_entries(slab), {{kPayloadMetadata, metadata}});
        std::vector<std::span<const std::byte>> pieces{std::as_bytes(std::span(front))};
        for (const TensorView& tensor : slab.tensors) {
            pieces.push_back(tensor.bytes);
            pieces.insert(pieces.end(), tensor.samples.begin(), tensor.samples.end());
        }
        write_dead_letter_file(path_, pieces);
    }

    const std::string folder_ = testing::TempDir() + "payload_test." + std::to_string(::getpid());
    const std::string path_ = folder_ + "/batch.safetensors";
    const FilledSlab slab_;
};

TEST_F(Payload, ReadsBackAsTheSameSlab) {
    const SlabContents before = slab_.contents();
    write_payload(path_, before);
    const PayloadFile file(path_);
    const SlabContents& after = file.slab();
    EXPECT_EQ(after.model, before.model);
    EXPECT_EQ(after.memory_format, before.memory_format);
    EXPECT_EQ(after.transform, before.transform);
    ASSERT_EQ(after.samples.size(), 2U);
    EXPECT_EQ(after.samples[0].key, "photos/cat");
    EXPECT_EQ(after.samples[1].item, 31U);
    EXPECT_TRUE(after.samples[1].empty);
    EXPECT_EQ(after.samples[1].batch, 7U);
    ASSERT_EQ(after.batches.size(), 1U);
    EXPECT_EQ(after.batches[0].first_row, 2U);
    ASSERT_EQ(after.tensors.size(), before.tensors.size());
    for (std::size_t i = 0; i < before.tensors.size(); ++i) {
        EXPECT_EQ(after.tensors[i].spec, before.tensors[i].spec);
        EXPECT_TRUE(std::ranges::equal(after.tensors[i].bytes, before.tensors[i].bytes)) << after.tensors[i].spec.name;
        EXPECT_EQ(reinterpret_cast<std::uintptr_t>(after.tensors[i].bytes.data()) % after.tensors[i].spec.dtype.bytes(),
                  0U);
    }
}

TEST_F(Payload, IsPlainSafetensorsWithDimensionsInMemoryOrder) {
    write_payload(path_, slab_.contents());
    const SafetensorsFile file(path_, {.what = "the payload", .hint = "none"});
    EXPECT_EQ(describe(*file.find("bytes")), "U8 [2, 3]");
    EXPECT_EQ(describe(*file.find("scores")), "F16 [2, 2, 4, 3]");
    EXPECT_EQ(describe(*file.find("phase")), "U8 [2, 2, 8]");
}

TEST_F(Payload, KeepsSamplesOfDifferentShapes) {
    const FilledSlab varying(5, 9, FilledSlab::Shapes::Different);
    const SlabContents before = varying.contents();
    write_payload(path_, before);
    const PayloadFile file(path_);
    const TensorView& tokens = file.slab().tensor("tokens");
    EXPECT_EQ(tokens.row_spec(0).describe(), "tokens int32 [1, 2, 3]");
    EXPECT_EQ(tokens.row_spec(1).describe(), "tokens int32 [1, 1, 3]");
    for (std::size_t row = 0; row < 2; ++row)
        EXPECT_TRUE(std::ranges::equal(tokens.row(row), before.tensor("tokens").row(row)));
    EXPECT_EQ(describe(*SafetensorsFile(path_, {.what = "the payload", .hint = "none"}).find("tokens")), "I32 [3, 3]");
}

TEST_F(Payload, RefusesShapesThatDoNotFitTheirBytes) {
    const FilledSlab varying(5, 9, FilledSlab::Shapes::Different);
    const std::string sound = payload_metadata(varying.contents());
    const std::string extents = "\"extents\":[2,1]";
    ASSERT_THAT(sound, HasSubstr(extents));
    for (const std::string wrong : {"[2,2]", "[2]", "[2,1,1]", "[-2,5]", "[4611686018427387904,1]", "null"}) {
        std::string metadata = sound;
        metadata.replace(metadata.find(extents), extents.size(), "\"extents\":" + wrong);
        write_with_metadata(metadata, varying.contents());
        EXPECT_THROW(PayloadFile{path_}, Error) << wrong;
    }
    write_with_metadata(sound, varying.contents());
    EXPECT_NO_THROW(PayloadFile{path_});
}

TEST_F(Payload, RefusesMissingOrBrokenMetadataByName) {
    write_dead_letter_file(path_, safetensors_header({}, {{"by", "hand"}}));
    EXPECT_THROW(PayloadFile{path_}, Error);
    const std::string sound = payload_metadata(slab_.contents());
    const auto with = [&](const std::string& from, const std::string& to) {
        std::string metadata = sound;
        metadata.replace(metadata.find(from), from.size(), to);
        return metadata;
    };
    for (const std::string& metadata :
         {std::string("no json"), std::string("{}"), with("\"format\":1", "\"format\":3"),
          with("[2,3,2,4]", "[2,3,2,5]"), with("[2,3,2,4]", "[2,4611686018427387904,2,4]"),
          with("[2,3,2,4]", "[2,-3,2,4]"), with("[24,1,12,3]", "[24,1,12,4]"), with("[[7,2,2]]", "[[7,2,3]]"),
          with("[[7,2,2]]", "[[7,2,4294967295]]"), with("\"stored_as\":\"scores\"", "\"stored_as\":\"none\""),
          with("[2,16]", "[2,0]"), with("\"upsample_factor\":1", "\"upsample_factor\":0"),
          with("\"transform\":1", "\"transform\":9")}) {
        write_with_metadata(metadata);
        EXPECT_THROW(PayloadFile{path_}, Error) << metadata;
    }
    write_with_metadata(sound);
    EXPECT_NO_THROW(PayloadFile{path_});
}

TEST_F(Payload, ReportsAWriteFailure) {
    EXPECT_THAT(test::error_of<SystemError>([&] { write_payload("/dev/full/batch.safetensors", slab_.contents()); },
                                            ErrorKind::CannotWrite),
                HasSubstr("/dev/full/batch.safetensors"));
    std::filesystem::create_directory(path_);
    EXPECT_THROW(write_payload(path_, slab_.contents()), SystemError);
    EXPECT_FALSE(std::filesystem::exists(path_ + ".new"));
}

}  // namespace
}  // namespace offramp
