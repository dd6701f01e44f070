#include "producer/runner/checkpoint/items_file.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "common/base/error.hpp"
#include "producer/runner/sources/source_items.hpp"
#include "tests/contract/processors/processor_world.hpp"
#include "tests/support/error_of.hpp"
#include "tests/unit/checkpoint/made_up_items.hpp"

namespace offramp {
namespace {

using ::testing::HasSubstr;
using Hashes = std::vector<std::uint64_t>;

Checkpoint that_vouches_for(const Hashes& hashes) {
    Checkpoint checkpoint;
    checkpoint.named = true;
    checkpoint.identity.facts = {{CheckpointIdentity::kItems, std::to_string(hashes.size())},
                                 {CheckpointIdentity::kNamesOfItems, source_fingerprint(hashes)}};
    return checkpoint;
}

struct ItemsFile : ::testing::Test {
    void write(const Hashes& hashes) {
        const auto file = new_items_file(path, test::write_failure);
        write_hashes(*file, hashes);
        file->flush();
        static_cast<void>(file->put_in_place());
    }
    std::string bytes() const {
        std::ifstream file(path, std::ios::binary);
        return {std::istreambuf_iterator<char>(file), {}};
    }
    void write_bytes(const std::string& bytes) const { std::ofstream(path, std::ios::binary) << bytes; }
    Hashes read(const Hashes& vouched_for) const {
        return read_items_file(folder.path(), that_vouches_for(vouched_for));
    }
    std::string refusal(const Hashes& vouched_for) const {
        return test::error_of([&] { read(vouched_for); }, ErrorKind::BadInput);
    }

    test::ScratchFolder folder;
    std::string path = folder.path() + "/" + kItemsFileName;
};

TEST_F(ItemsFile, ItsBytesAreFrozen) {
    write({1, 0x0807060504030201});
    EXPECT_EQ(bytes(),
              std::string("offritem\1\0\0\0\0\0\0\0", 16) + std::string("\1\0\0\0\0\0\0\0", 8) + "\1\2\3\4\5\6\7\b");
    EXPECT_EQ(source_fingerprint(Hashes{1, 0x0807060504030201}), "3ed78dbd5db9a785");
}

TEST_F(ItemsFile, ItsHashesHaveTheFingerprintOfTheirSource) {
    std::vector<std::string> keys;
    for (int i = 0; i < 1'100'000; ++i) keys.push_back("item " + std::to_string(i));
    keys[17] = "noted";
    const test::Items items(keys);
    const Hashes hashes = hashes_of_items(items);
    // The first, the one with a note, and the last, however many are hashed at a time.
    EXPECT_EQ(hashes[0], hashes_of_items(test::Items({"item 0"}))[0]);
    EXPECT_EQ(hashes[17], hashes_of_items(test::Items({"noted"}))[0]);
    EXPECT_EQ(hashes.back(), hashes_of_items(test::Items({"item 1099999"}))[0]);
    EXPECT_EQ(source_fingerprint(hashes), source_fingerprint(items));
    EXPECT_EQ(source_fingerprint(std::span(hashes).first(5000)), source_fingerprint(items, 5000));
    EXPECT_NE(source_fingerprint(items, 5000), source_fingerprint(items, 5001));
    write(hashes);
    EXPECT_EQ(read(hashes), hashes);
}

// A run appends hashes before its checkpoint vouches for them.
TEST_F(ItemsFile, IgnoresHashesThatTheCheckpointDoesNotVouchFor) {
    write({1, 2, 3});
    EXPECT_EQ(read({1, 2}), (Hashes{1, 2}));
    write_bytes(bytes() + "torn");
    EXPECT_EQ(read({1, 2, 3}), (Hashes{1, 2, 3}));
    EXPECT_EQ(read({}), Hashes{});
}

TEST_F(ItemsFile, RefusesWhatTheCheckpointDoesNotVouchFor) {
    EXPECT_THAT(refusal({1}), testing::AllOf(HasSubstr(path), HasSubstr("is missing"), HasSubstr("--overwrite")));
    write({1, 2});
    EXPECT_THAT(refusal({1, 2, 3}), HasSubstr("is truncated: it has 2 of 3 items"));
    EXPECT_THAT(refusal({1, 3}), HasSubstr("was damaged, or is another run's"));
    Checkpoint without_names = that_vouches_for({1, 2});
    without_names.identity.facts.erase(CheckpointIdentity::kNamesOfItems);
    EXPECT_THAT(test::error_of([&] { read_items_file(folder.path(), without_names); }, ErrorKind::BadInput),
                HasSubstr("was damaged"));
    Checkpoint endless = that_vouches_for({1, 2});
    endless.identity.facts[CheckpointIdentity::kItems] = "18446744073709551615";
    EXPECT_THAT(test::error_of([&] { read_items_file(folder.path(), endless); }, ErrorKind::BadInput),
                HasSubstr("is truncated"));
    const std::string whole = bytes();
    for (const std::size_t size : {0U, 7U, 15U, 31U}) {
        write_bytes(whole.substr(0, size));
        EXPECT_THAT(refusal({1, 2}), size < 16 ? HasSubstr("another file") : HasSubstr("it has 1 of 2")) << size;
    }
    std::string other_version = whole;
    other_version[8] = 2;
    write_bytes(other_version);
    EXPECT_THAT(refusal({1, 2}), HasSubstr("has another version"));
    std::filesystem::rename(path, folder.path() + "/real");
    std::filesystem::create_symlink(folder.path() + "/real", path);
    EXPECT_THROW(read({1, 2}), SystemError) << "it follows no link";
}

}  // namespace
}  // namespace offramp
