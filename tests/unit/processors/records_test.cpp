#include <gmock/gmock.h>

#include <cstring>
#include <utility>

#include "common/base/error.hpp"
#include "tests/contract/processors/processor_world.hpp"
#include "tests/support/error_of.hpp"
#include "tests/unit/images/picture_files.hpp"
#include "tests/unit/processors/hand_made.hpp"

namespace offramp {
namespace {

using test::HandMade;
using test::ScratchFolder;
using test::spec_of;
using ::testing::HasSubstr;

// A class map of four pixels: half of them of class 7.
HandMade mapped() {
    HandMade made = test::one_sample();
    made.contents.model = "m";
    made.add(spec_of("map", kUInt8, {1, 2, 2}));
    const std::uint8_t ids[] = {7, 0, 7, 255};
    std::memcpy(made.storage[0].data(), ids, sizeof ids);
    return made;
}

std::string rows_after(const RunConfig& config, const std::vector<SlabContents>& slabs) {
    {
        const auto processor = make_processor(config.processor, config);
        for (const SlabContents& slab : slabs) processor->process(slab, test::kNoProgress, test::kCurrent);
    }
    const test::Tree tree = test::read_tree(config.output);
    const auto found = tree.find(config.processor == "records" ? "records.sqlite" : "records/records.sqlite");
    return found == tree.end() ? "no database" : found->second;
}

TEST(Records, ReportTheShareOfPixelsOfEachClass) {
    const ScratchFolder folder;
    HandMade made = mapped();
    const RunConfig config = test::config_for("records", folder.path());
    EXPECT_EQ(rows_after(config, {made.contents}),
              "records\t0\tsample\tdone\t{}\t{\"0\":0.25,\"255\":0.25,\"7\":0.5}\t{}\tm\n");
    made.add(spec_of("scores", kFloat32, {1, 2, 1, 1}));
    EXPECT_THAT(rows_after(config, {made.contents}),
                HasSubstr("\t{\"map\":{\"0\":0.25,\"255\":0.25,\"7\":0.5},\"scores\":{\"0\":1.0}}\t"));
}

TEST(Records, HaveNoClassesForAModelWithoutThem) {
    const ScratchFolder folder;
    HandMade made = test::one_sample();
    made.add(spec_of("v", kFloat32, {1, 8}));
    EXPECT_EQ(rows_after(test::config_for("records", folder.path()), {made.contents}),
              "records\t0\tsample\tdone\t{}\tnothing\t{}\t\n");
}

TEST(Records, ListTheFilesOfOtherProcessorsInAnyOrder) {
    for (const std::string names :
         {"records,mask-png,npy,safetensors,checksum", "mask-png,npy,safetensors,checksum,records"}) {
        const ScratchFolder folder;
        HandMade made = mapped();
        made.contents.samples[0].key = "a b/c\"d";
        RunConfig config = test::config_for(names, folder.path());
        config.catalogue.put("mask-size", "model");  // no picture has such a key
        const std::string rows = rows_after(config, {made.contents});
        EXPECT_THAT(rows,
                    HasSubstr("\t{\"mask-png\":[\"mask-png/a b/c\\\\\"d.png\"],\"npy\":[\"npy/a "
                              "b/c\\\\\"d.map.npy\"],\"safetensors\":[\"safetensors/a b/c\\\\\"d.safetensors\"]}\t"));
        const test::Tree tree = test::read_tree(folder.path());
        for (const char* file : {"mask-png/a b/c\"d.png", "npy/a b/c\"d.map.npy", "safetensors/a b/c\"d.safetensors"})
            EXPECT_TRUE(tree.contains(file)) << file;
    }
}

TEST(Records, ASkippedItemThatIsDoneLaterStaysDone) {
    const ScratchFolder folder;
    const RunConfig config = test::config_for("records", folder.path());
    HandMade made = mapped();
    SlabContents skipped = made.contents;
    skipped.samples[0].empty = true;
    EXPECT_EQ(rows_after(config, {skipped}), "records\t0\tsample\tskipped\t{}\tnothing\t{}\tm\n");
    const std::string done = rows_after(config, {made.contents});
    EXPECT_THAT(done, HasSubstr("\tdone\t"));
    // A resumed run sends a done item as an empty row named by its number.
    skipped.samples[0].key = "0";
    EXPECT_EQ(rows_after(config, {skipped}), done);
}

struct RecordsOfAManifest : ::testing::Test {
    RecordsOfAManifest() {
        config = test::config_for("records", "");
        config.input =
            inputs.write("list.jsonl",
                         "{\"id\":\"chair\",\"uri\":\"a.png\",\"price\":12,\"names\":[\"Stuhl\",\"chaise\"]}\nbad\n"
                         "{\"id\":\"gone\",\"uri\":\"gone.png\",\"price\":9}\n{\"id\":\"plain\",\"uri\":\"a.png\"}\n");
        made = mapped();
    }

    std::string row_of(const std::string& key, std::uint64_t item, bool empty = false) {
        SlabContents slab = made.contents;
        slab.samples[0].key = key;
        slab.samples[0].item = item;
        slab.samples[0].empty = empty;
        const ScratchFolder own;
        config.output = own.path();
        return rows_after(config, {slab});
    }

    TempFolder inputs;
    RunConfig config;
    HandMade made;
};

TEST_F(RecordsOfAManifest, HaveItsColumns) {
    EXPECT_THAT(
        row_of("chair", 0),
        HasSubstr(
            "\tdone\t{}\t{\"0\":0.25,\"255\":0.25,\"7\":0.5}\t{\"names\":[\"Stuhl\",\"chaise\"],\"price\":12}\tm\n"));
    EXPECT_THAT(row_of("plain", 3), HasSubstr("\t{}\tm\n"));
}

TEST_F(RecordsOfAManifest, SkippedItemsHaveThemWhereTheirLineIsReadable) {
    EXPECT_EQ(row_of("gone", 2, true), "records\t2\tgone\tskipped\t{}\tnothing\t{\"price\":9}\tm\n");
    EXPECT_EQ(row_of("line-2", 1, true), "records\t1\tline-2\tskipped\t{}\tnothing\t{}\tm\n");
    EXPECT_EQ(row_of("7", 7, true), "records\t7\t7\tskipped\t{}\tnothing\t{}\tm\n");
}

// A key without a line: the manifest has changed.
TEST_F(RecordsOfAManifest, ReportAChangedInput) {
    EXPECT_THAT(test::error_of([&] { row_of("chair 2", 0); }, ErrorKind::NoInput), HasSubstr("'chair 2'"));
}

TEST_F(RecordsOfAManifest, HaveNoneForAnInputThatIsNoList) {
    for (const auto& [source, input] :
         {std::pair("synthetic", ""), std::pair("auto", ""), std::pair("auto", "/nowhere/rows.npy"),
          std::pair("text", "/nowhere/lines.txt"), std::pair("images", "/nowhere")}) {
        config.source = source;
        config.input = input;
        EXPECT_THAT(row_of("0", 0), HasSubstr("\tdone\t{}\t{\"0\":0.25,\"255\":0.25,\"7\":0.5}\t{}\tm\n"))
            << source << " " << input;
    }
}

}  // namespace
}  // namespace offramp
