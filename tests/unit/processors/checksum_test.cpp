#include <gmock/gmock.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <cstdio>
#include <numeric>

#include "consumer/processors/raw/row_chunks.hpp"
#include "consumer/processors/results/outputs_of_run.hpp"
#include "tests/contract/processors/processor_world.hpp"

namespace offramp {
namespace {

using test::ScratchFolder;

// The header's scalar or SSE2 code against the library's dispatched one.
TEST(RowHash, IsXxh3OfTheBytes) {
    RowHash hash;
    std::vector<std::byte> bytes(70'000);
    for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * 31 + (i >> 8U));
    for (const std::size_t size : {std::size_t{0}, std::size_t{1}, std::size_t{17}, std::size_t{240}, std::size_t{241},
                                   std::size_t{1024}, bytes.size()})
        EXPECT_EQ(hash.of(std::span(bytes).first(size), test::kNoProgress), XXH3_64bits(bytes.data(), size)) << size;
}

TEST(RowHash, HandlesALongRowAndReportsProgress) {
    std::vector<std::byte> bytes(2 * kProgressBytes + 12345, std::byte{7});
    bytes.back() = std::byte{1};
    RowHash hash;
    std::size_t calls = 0;
    EXPECT_EQ(hash.of(bytes, [&] { ++calls; }), XXH3_64bits(bytes.data(), bytes.size()));
    EXPECT_EQ(calls, 3U);
}

TEST(Checksum, WritesALineForEverySampleAndOutput) {
    const ScratchFolder folder;
    std::vector<test::MemorySlab> slabs;
    slabs.push_back(test::make_slab(3, 3));
    const SlabContents contents = slabs.front().contents();
    std::string wanted;
    for (const std::uint64_t item : {3, 5}) {
        for (const TensorView& tensor : contents.tensors) {
            const auto row = tensor.row(item - 3);
            char hash[17];
            std::snprintf(hash, sizeof hash, "%016llx",
                          static_cast<unsigned long long>(XXH3_64bits(row.data(), row.size())));
            wanted += std::to_string(item) + "\t" + std::to_string(item / 4) + "\tfolder " + std::to_string(item % 3) +
                      "/image\\\\" + std::to_string(item) + ".jpg\t" + tensor.spec.name + "\t" + hash + "\n";
        }
    }
    const auto tree = test::run_over(test::config_for("checksum", folder.path()), folder.path(), slabs);
    EXPECT_EQ(tree, (test::Tree{{"checksums.tsv", wanted}}));
}

TEST(Checksum, WithoutOutputFolderOnlyReads) {
    const RunConfig config;
    std::size_t calls = 0;
    make_processor("checksum", config)
        ->process(
            test::make_slab(0, 4).contents(), [&] { ++calls; }, test::kCurrent);
    EXPECT_GE(calls, 4U);
    EXPECT_NO_THROW(finish_run(config));
}

}  // namespace
}  // namespace offramp
