#include "consumer/sinks/segments/segment_merge.hpp"

#include <gmock/gmock.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>

#include "common/base/error.hpp"
#include "consumer/sinks/segments/segment_file.hpp"
#include "tests/contract/processors/processor_world.hpp"
#include "tests/support/error_of.hpp"

namespace offramp {
namespace {

namespace fs = std::filesystem;
using test::read_tree;
using test::ScratchFolder;
using test::Tree;

// Items [first, last) in one segment, two lines each, in batches of ten.
void deliver(const std::string& folder, std::uint64_t first, std::uint64_t last, const std::string& value = "v") {
    SegmentFile segment(folder, "series");
    segment.begin(first / 10, static_cast<std::uint32_t>(first % 10));
    for (std::uint64_t item = first; item < last; ++item) {
        segment.add_line(item, {"key " + std::to_string(item), "a", value});
        segment.add_line(item, {"key\t" + std::to_string(item), "b", value});
    }
    segment.commit();
}

std::string expected_lines(std::uint64_t first, std::uint64_t last, const std::string& value = "v") {
    std::string text;
    for (std::uint64_t item = first; item < last; ++item) {
        const std::string number = std::to_string(item);
        text +=
            number + "\tkey " + number + "\ta\t" + value + "\n" + number + "\tkey\\t" + number + "\tb\t" + value + "\n";
    }
    return text;
}

MergeOutcome merge(const std::string& folder) { return merge_segments(folder, "series", folder + "/all.tsv"); }

fs::path only_segment(const std::string& folder) {
    return fs::directory_iterator(segment_folder(folder, "series"))->path();
}

TEST(MergeSegments, SortsJsonLinesByItem) {
    const ScratchFolder folder;
    for (const std::uint64_t item : {10, 9}) {
        SegmentFile segment(folder.path(), "series");
        segment.begin(item, 0);
        segment.add_json(item, "\"key\":\"\\t\"");
        segment.commit();
    }
    const std::string wanted = "{\"item\":9,\"key\":\"\\t\"}\n{\"item\":10,\"key\":\"\\t\"}\n";
    EXPECT_EQ(merge(folder.path()).items, 2U);
    EXPECT_EQ(read_tree(folder.path()), (Tree{{"all.tsv", wanted}}));
    SegmentFile segment(folder.path(), "series");
    segment.begin(11, 0);
    segment.add_json(11, "\"key\":1");
    segment.commit();
    const MergeOutcome outcome = merge_segments(folder.path(), "series", folder.path() + "/all.tsv");
    EXPECT_EQ(outcome.kept, 2U);
    EXPECT_EQ(read_tree(folder.path()), (Tree{{"all.tsv", wanted + "{\"item\":11,\"key\":1}\n"}}));
}

TEST(MergeSegments, SortsByItemAndRemovesTheSegments) {
    const ScratchFolder folder;
    deliver(folder.path(), 10, 12);
    deliver(folder.path(), 2, 4);
    const MergeOutcome outcome = merge(folder.path());
    EXPECT_EQ(outcome.segments, 2U);
    EXPECT_EQ(outcome.items, 4U);
    EXPECT_EQ(read_tree(folder.path()), (Tree{{"all.tsv", expected_lines(2, 4) + expected_lines(10, 12)}}));
}

TEST(MergeSegments, KeepsTheFileWithoutSegments) {
    const ScratchFolder folder;
    std::ofstream(folder.path() + "/all.tsv") << "from before";
    EXPECT_EQ(merge(folder.path()).segments, 0U);
    EXPECT_EQ(read_tree(folder.path()), (Tree{{"all.tsv", "from before"}}));
}

TEST(MergeSegments, KeepsAllLinesOfDifferingDeliveries) {
    const ScratchFolder folder;
    deliver(folder.path(), 0, 8);
    deliver(folder.path(), 0, 4);
    const MergeOutcome outcome = merge(folder.path());
    EXPECT_EQ(outcome.repeats, 4U);
    EXPECT_EQ(outcome.conflicts, 0U);
    EXPECT_EQ(read_tree(folder.path()), (Tree{{"all.tsv", expected_lines(0, 8)}}));
}

TEST(MergeSegments, KeepsTheLatestOfDifferingLines) {
    const ScratchFolder folder;
    deliver(folder.path(), 0, 3, "old");
    const fs::path old = only_segment(folder.path());
    fs::last_write_time(old, fs::last_write_time(old) - std::chrono::hours(1));
    deliver(folder.path(), 1, 2, "new");
    EXPECT_EQ(merge(folder.path()).conflicts, 1U);
    EXPECT_EQ(read_tree(folder.path()).at("all.tsv"),
              expected_lines(0, 1, "old") + expected_lines(1, 2, "new") + expected_lines(2, 3, "old"));
}

TEST(MergeSegments, NamesADamagedSegmentWithoutLoss) {
    const ScratchFolder folder;
    deliver(folder.path(), 0, 3);
    const fs::path segment = only_segment(folder.path());
    fs::resize_file(segment, fs::file_size(segment) - 3);
    const Tree before = read_tree(folder.path());
    EXPECT_THAT(test::error_of<ProtocolError>([&] { merge(folder.path()); }), testing::HasSubstr(segment.string()));
    EXPECT_EQ(read_tree(folder.path()), before);
}

TEST(MergeSegments, KeepsOtherSeries) {
    const ScratchFolder folder;
    SegmentFile other(folder.path(), "other");
    other.begin(0, 0);
    other.add_line(1, {"x"});
    other.commit();
    deliver(folder.path(), 0, 1);
    merge(folder.path());
    EXPECT_EQ(merge_segments(folder.path(), "other", folder.path() + "/other.tsv").items, 1U);
    EXPECT_EQ(read_tree(folder.path()), (Tree{{"all.tsv", expected_lines(0, 1)}, {"other.tsv", "1\tx\n"}}));
}

TEST(MergeSegments, AResumedRunKeepsMergedLines) {
    const ScratchFolder folder;
    const std::string file = folder.path() + "/all.tsv";
    deliver(folder.path(), 4, 8);
    merge(folder.path());
    deliver(folder.path(), 0, 5);
    deliver(folder.path(), 8, 9);
    const MergeOutcome outcome = merge_segments(folder.path(), "series", file, Durability::PowerCut);
    EXPECT_EQ(outcome.segments, 2U);
    EXPECT_EQ(outcome.items, 9U);
    EXPECT_EQ(outcome.kept, 3U);
    EXPECT_EQ(outcome.repeats, 1U);
    EXPECT_EQ(read_tree(folder.path()), (Tree{{"all.tsv", expected_lines(0, 9)}}));
    // Without new segments, and after a death that left merged segments.
    EXPECT_EQ(merge_segments(folder.path(), "series", file).items, 0U);
    deliver(folder.path(), 0, 9);
    EXPECT_EQ(merge_segments(folder.path(), "series", file).repeats, 9U);
    EXPECT_EQ(read_tree(folder.path()), (Tree{{"all.tsv", expected_lines(0, 9)}}));
}

// Every N-th item, so that each segment is read repeatedly; also by a process that cannot have all of them open.
TEST(MergeSegments, MergesItemsScatteredOverManySegments) {
    constexpr std::uint64_t kSegments = 50;
    const ScratchFolder folder;
    std::string wanted;
    for (std::uint64_t first = 0; first < kSegments; ++first) {
        SegmentFile segment(folder.path(), "series");
        segment.begin(first, 0);
        for (std::uint64_t item = first; item < 4 * kSegments; item += kSegments) segment.add_line(item, {"k"});
        segment.commit();
    }
    for (std::uint64_t item = 0; item < 4 * kSegments; ++item) wanted += std::to_string(item) + "\tk\n";
    EXPECT_EQ(merge(folder.path()).items, 4 * kSegments);
    EXPECT_EQ(read_tree(folder.path()), (Tree{{"all.tsv", wanted}}));
}

// A block of RecordFile ends inside them.
TEST(MergeSegments, MergesLinesLongerThanABlock) {
    const ScratchFolder folder;
    const std::string file = folder.path() + "/all.tsv";
    const auto long_line = [](std::uint64_t item) {
        return std::string((item + 1) << 20, static_cast<char>('a' + item));
    };
    std::string wanted;
    for (std::uint64_t item = 0; item < 4; ++item) {
        SegmentFile segment(folder.path(), "series");
        segment.begin(item, 0);
        segment.add_line(item, {long_line(item)});
        segment.add_line(item + 4, {"short"});
        segment.commit();
        wanted += std::to_string(item) + "\t" + long_line(item) + "\n";
    }
    for (std::uint64_t item = 4; item < 8; ++item) wanted += std::to_string(item) + "\tshort\n";
    merge(folder.path());
    EXPECT_TRUE(read_tree(folder.path()) == (Tree{{"all.tsv", wanted}}));
    deliver(folder.path(), 8, 9);
    EXPECT_EQ(merge_segments(folder.path(), "series", file).kept, 8U);
    EXPECT_TRUE(read_tree(folder.path()) == (Tree{{"all.tsv", wanted + expected_lines(8, 9)}}));
}

// Between the two reads.
TEST(MergeSegments, RefusesASegmentThatChanges) {
    const ScratchFolder folder;
    deliver(folder.path(), 0, 3);
    const fs::path segment = only_segment(folder.path());
    SegmentForm form = lines_form();
    form.write = [](const std::string& merged, const NextRecords& next, Durability durability) {
        std::fstream(only_segment(fs::path(merged).parent_path())) << "7";
        lines_form().write(merged, next, durability);
    };
    EXPECT_THAT(test::error_of<ProtocolError>([&] {
                    merge_segments(folder.path(), "series", folder.path() + "/all.tsv", Durability::Process, form);
                }),
                testing::HasSubstr(segment.string() + " is damaged: it changed while it was merged"));
    EXPECT_FALSE(fs::exists(folder.path() + "/all.tsv"));
    EXPECT_TRUE(fs::exists(segment));
}

TEST(MergeSegments, NamesADamagedEarlierOutputWithoutLoss) {
    const ScratchFolder folder;
    const std::string file = folder.path() + "/all.tsv";
    std::ofstream(file) << std::string(3 << 20, '7');
    deliver(folder.path(), 0, 3);
    const Tree before = read_tree(folder.path());
    EXPECT_THAT(test::error_of<ProtocolError>([&] { merge_segments(folder.path(), "series", file); }),
                testing::HasSubstr(file + " is damaged: its last line is incomplete"));
    EXPECT_TRUE(read_tree(folder.path()) == before);
}

// The merge of a killed launcher continues beside the next run's consumers.
TEST(MergeSegments, KeepsNewSegmentsForTheNextMerge) {
    const ScratchFolder folder;
    deliver(folder.path(), 0, 3);
    SegmentForm form = lines_form();
    form.write = [](const std::string& merged, const NextRecords& next, Durability durability) {
        deliver(fs::path(merged).parent_path(), 3, 6);
        lines_form().write(merged, next, durability);
    };
    EXPECT_EQ(merge_segments(folder.path(), "series", folder.path() + "/all.tsv", Durability::Process, form).segments,
              1U);
    EXPECT_EQ(merge(folder.path()).kept, 3U);
    EXPECT_EQ(read_tree(folder.path()), (Tree{{"all.tsv", expected_lines(0, 6)}}));
}

// Killed after removing some of the merged segments.
TEST(MergeSegments, AnInterruptedRemovalLosesNothing) {
    const ScratchFolder folder, before;
    deliver(folder.path(), 0, 3);
    deliver(folder.path(), 3, 6);
    fs::copy(segment_folder(folder.path(), "series"), before.path());
    merge(folder.path());
    fs::create_directories(segment_folder(folder.path(), "series"));
    fs::copy(fs::directory_iterator(before.path())->path(), segment_folder(folder.path(), "series"));
    EXPECT_EQ(merge(folder.path()).repeats, 3U);
    EXPECT_EQ(read_tree(folder.path()), (Tree{{"all.tsv", expected_lines(0, 6)}}));
}

TEST(SegmentFile, LeavesNothingWithoutLines) {
    const ScratchFolder folder;
    SegmentFile segment(folder.path(), "series");
    segment.begin(3, 0);
    segment.commit();
    EXPECT_TRUE(read_tree(folder.path()).empty());
}

// Deliveries of ranges that cover [0, last), with any grouping, order and repetition, merge to the same bytes.
RC_GTEST_PROP(MergeSegments, IsIndependentOfGroupingOrderAndRepetition, ()) {
    const auto last = *rc::gen::inRange<std::uint64_t>(1, 40);
    std::vector<std::pair<std::uint64_t, std::uint64_t>> ranges;
    for (std::uint64_t first = 0; first < last;) {
        const auto end = std::min(last, first + *rc::gen::inRange<std::uint64_t>(1, 15));
        ranges.emplace_back(first, end);
        first = end;
    }
    for (int extra = *rc::gen::inRange(0, 5); extra > 0; --extra) {
        const auto first = *rc::gen::inRange<std::uint64_t>(0, last);
        ranges.emplace_back(first, *rc::gen::inRange<std::uint64_t>(first + 1, last + 1));
    }
    const ScratchFolder folder;
    for (std::size_t left = ranges.size(); left > 0; --left) {
        const auto pick = *rc::gen::inRange<std::size_t>(0, left);
        deliver(folder.path(), ranges[pick].first, ranges[pick].second);
        std::swap(ranges[pick], ranges[left - 1]);
    }
    const MergeOutcome outcome = merge(folder.path());
    RC_ASSERT(outcome.items == last);
    RC_ASSERT(outcome.conflicts == 0U);
    RC_ASSERT(read_tree(folder.path()) == (Tree{{"all.tsv", expected_lines(0, last)}}));
}

}  // namespace
}  // namespace offramp
