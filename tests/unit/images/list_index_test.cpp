#include "common/app/images/list_index.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <fstream>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "common/app/images/picture_list.hpp"
#include "common/app/settings/parsed_values.hpp"
#include "common/app/settings/sections.hpp"
#include "common/base/error.hpp"
#include "tests/unit/images/picture_files.hpp"

namespace offramp {
namespace {

using ::testing::HasSubstr;

constexpr std::uint64_t kShards = 5;

std::string shard(std::uint64_t number) { return std::to_string(number) + "/" + std::to_string(kShards); }

WriteFailure failure() {
    return [](int problem) { return SystemError("writing", problem); };
}

// A long list of pictures, its whole, and its index.
class ListIndexes : public ::testing::Test {
  protected:
    void begin(const std::string& text, const std::string& of_folder = {}) {
        list_ = folder_.write(of_folder.empty() ? "list.txt" : "input.list", text);
        input_ = of_folder.empty() ? list_ : of_folder;
        listed_ = of_folder.empty() ? "" : list_;
        ListIndex index;
        describe_list(input_, listed_, index);
        FileList list = listed_.empty() ? list_image_files(input_, {}, &index.parts)
                                        : read_listed_files(input_, listed_, &index.parts);
        ASSERT_GT(index.parts.size(), kShards);
        whole_ = std::make_unique<FilePictures>(std::move(list));
        EXPECT_TRUE(whole_->keys_are_independent());
        index.items = whole_->size();
        index.items_hash = 7;
        index.max_key_bytes = 123;
        index.items_file_bytes = 4;
        folder_.write("input.items", "1234");
        write(index);
    }

    void write(const ListIndex& index) {
        WholeFile file(folder_ / "input.index", 0644, failure());
        index.write(file);
        static_cast<void>(file.put_in_place());
    }

    std::unique_ptr<PictureList> open(std::uint64_t number, std::uint32_t batch = 1) const {
        return open_pictures("images", input_, {}, listed_, {folder_ / "input.index", shard(number), batch});
    }

    ListIndex::Owner owner() const { return listed_.empty() ? ListIndex::Owner::User : ListIndex::Owner::Job; }

    void change_time() const {
        const std::array<timespec, 2> later{timespec{.tv_sec = 0, .tv_nsec = UTIME_OMIT},
                                            timespec{.tv_sec = 1, .tv_nsec = 0}};
        ASSERT_EQ(::utimensat(AT_FDCWD, list_.c_str(), later.data(), 0), 0);
    }

    void expect_whole(const std::string& why) const {
        const auto pictures = open(2);
        EXPECT_EQ(pictures->index(), nullptr) << why;
        EXPECT_EQ(pictures->at_hand(), (ItemRange{0, whole_->size()})) << why;
    }

    void expect_shards_as_in_the_whole() const {
        std::uint64_t before = 0;
        for (std::uint64_t number = 1; number <= kShards; ++number) {
            const auto pictures = open(number);
            ASSERT_NE(pictures->index(), nullptr);
            EXPECT_EQ(pictures->index()->items_hash, 7U);
            EXPECT_EQ(pictures->index()->max_key_bytes, 123U);
            EXPECT_EQ(pictures->index()->items_file, folder_ / "input.items");
            EXPECT_EQ(pictures->size(), whole_->size());
            EXPECT_EQ(pictures->description(), whole_->description());
            const Shard::Range range = Shard::parse(shard(number))->of(whole_->size());
            EXPECT_EQ(range.begin, before);
            const ItemRange read = pictures->at_hand();
            EXPECT_TRUE(read.begin <= range.begin && range.end <= read.end);
            EXPECT_LT(read.end - read.begin, whole_->size() / 2) << "the other parts are not read";
            bool is_same = true;
            for (std::uint64_t i = read.begin; i < read.end; ++i)
                is_same = is_same && pictures->key(i) == whole_->key(i) && pictures->origin(i) == whole_->origin(i) &&
                          pictures->file_name(i) == whole_->file_name(i);
            EXPECT_TRUE(is_same) << shard(number);
            before = range.end;
        }
        EXPECT_EQ(before, whole_->size());
    }

    std::string bytes_of_index() const {
        std::ifstream file(folder_ / "input.index", std::ios::binary);
        return {std::istreambuf_iterator<char>(file), {}};
    }

    const TempFolder folder_;
    std::string list_, input_, listed_;
    std::unique_ptr<FilePictures> whole_;
};

std::string name(std::size_t i) {
    return (i % 5 == 0   ? "../up/"
            : i % 7 == 0 ? "./"
                         : "") +
           ("folder-" + std::to_string(i % 97)) + (i % 9 == 0 ? "/\xc3\xa4\x01" : "/a") + std::to_string(i) + ".jpg";
}

// Few names, and long comments between them.
std::string lines(std::size_t bytes) {
    std::string text = "\xef\xbb\xbf# first\n";
    for (std::size_t i = 0; text.size() < bytes; ++i)
        text += name(i) + (i % 3 == 0 ? "\r\n" : "\n") +
                (i % 11 == 0 ? "\n# " + std::string(i == 1001 ? 3U << 20 : 5000, 'x') + "\n" : "");
    return text;
}

TEST_F(ListIndexes, AShardOfAListHasTheKeysOfTheWhole) {
    begin(lines(40U << 20));
    expect_shards_as_in_the_whole();
}

TEST_F(ListIndexes, AShardOfAFolderHasTheKeysOfTheWhole) {
    std::string names;
    std::size_t count = 0;
    for (; names.size() < (6U << 20); ++count) (names += name(count)) += '\0';
    begin(std::to_string(count) + "\n" + names, folder_ / "photos");
    expect_shards_as_in_the_whole();
}

// The first and last batch of a shard hold items of its neighbours.
TEST_F(ListIndexes, AShardReadsWholeBatches) {
    begin(lines(12U << 20));
    const std::uint64_t items = whole_->size();
    for (const std::uint64_t batch : {std::uint64_t{7}, std::uint64_t{1000}, items - 1, items, items + 1})
        for (std::uint64_t number = 1; number <= kShards; ++number) {
            const auto pictures = open(number, static_cast<std::uint32_t>(batch));
            const Shard::Range range = Shard::parse(shard(number))->of(items);
            const ItemRange read = pictures->at_hand();
            EXPECT_LE(read.begin, range.begin / batch * batch);
            EXPECT_GE(read.end, std::min(items, ((range.end - 1) / batch + 1) * batch));
            EXPECT_EQ(pictures->key(read.end - 1), whole_->key(read.end - 1));
        }
}

TEST_F(ListIndexes, AnotherShardsPictureIsAnError) {
    begin(lines(12U << 20));
    const auto pictures = open(2);
    for (const std::uint64_t other : {std::uint64_t{0}, pictures->at_hand().end}) try {
            pictures->key(other);
            ADD_FAILURE() << other;
        } catch (const Error& problem) {
            EXPECT_EQ(problem.kind(), ErrorKind::Internal);
            EXPECT_THAT(problem.what(), HasSubstr("picture " + std::to_string(other) + " was not read"));
        }
}

TEST(ShareOfList, IsEmptyForSettingsThatNeedTheWholeList) {
    InputSettings settings;
    settings.input_index = "job/input.index";
    settings.shard = "2/3";
    settings.batch = 8;
    const ListShare share = share_of_list(settings);
    EXPECT_EQ(share.index, "job/input.index");
    EXPECT_EQ(share.shard, "2/3");
    EXPECT_EQ(share.batch, 8U);
    InputSettings limited = settings, tiled = settings, shaped = settings;
    limited.limit = 6;
    tiled.tile = 32;
    shaped.resize = "none";
    for (const InputSettings& other : {limited, tiled, shaped}) EXPECT_EQ(share_of_list(other).index, "");
}

TEST_F(ListIndexes, TheWholeListIsReadIfTheIndexIsDamaged) {
    begin(lines(12U << 20));
    const std::string whole = bytes_of_index();
    for (const std::size_t bytes :
         {std::size_t{0}, std::size_t{71}, std::size_t{80}, whole.size() - 24, whole.size() - 1}) {
        folder_.write("input.index", whole.substr(0, bytes));
        expect_whole("of " + std::to_string(bytes) + " bytes");
    }
    for (const std::size_t at : {std::size_t{0}, std::size_t{8}, std::size_t{40}, std::size_t{75}, whole.size() - 1}) {
        std::string damaged = whole;
        damaged[at] ^= 1;
        folder_.write("input.index", damaged);
        expect_whole("with another byte at " + std::to_string(at));
    }
    std::filesystem::remove(folder_ / "input.index");
    expect_whole("missing");
    folder_.write("input.index", whole);
    folder_.write("input.items", "123");
    expect_whole("with other items");
    folder_.write("input.items", "1234");
    EXPECT_NE(open(2)->index(), nullptr);
}

TEST_F(ListIndexes, PartsOutsideTheListAreRefused) {
    begin(lines(12U << 20));
    const auto index = ListIndex::read(folder_ / "input.index", list_, folder_.path().string() + "/", owner());
    using Change = void (*)(ListIndex&);
    for (const Change change :
         std::to_array<Change>({[](ListIndex& one) { one.parts.back().offset = one.list_bytes + 1; },
                                [](ListIndex& one) { one.parts.back().first_item = one.items + 1; },
                                [](ListIndex& one) { one.parts.front().first_item = 1; },
                                [](ListIndex& one) { std::swap(one.parts.back(), one.parts.end()[-2]); },
                                [](ListIndex& one) { one.parts.clear(); }})) {
        ListIndex changed = *index;
        change(changed);
        write(changed);
        expect_whole("inconsistent");
    }
}

TEST_F(ListIndexes, TheWholeListIsReadIfItHasChanged) {
    begin(lines(12U << 20));
    ASSERT_NE(open(2)->index(), nullptr);
    change_time();
    expect_whole("of another time");
}

// Each job init writes the list of a folder, and the first one's stays.
TEST_F(ListIndexes, TheSameListOfAJobMayBeWrittenAgain) {
    std::string names;
    std::size_t count = 0;
    for (; names.size() < (6U << 20); ++count) (names += name(count)) += '\0';
    begin(std::to_string(count) + "\n" + names, folder_ / "photos");
    change_time();
    EXPECT_NE(open(2)->index(), nullptr);
}

std::string refusal(const std::string& index, const std::string& list) {
    try {
        ListIndex::read(index, list, "/", ListIndex::Owner::Job);
    } catch (const Error& problem) {
        return problem.what();
    }
    return "none";
}

TEST_F(ListIndexes, ARefusalHasItsReason) {
    begin(lines(12U << 20));
    std::string changed = bytes_of_index();
    changed[8] = 2;
    changed.resize(changed.size() - 8);
    const std::uint64_t seal = XXH3_64bits(changed.data(), changed.size());
    folder_.write("input.index", changed.append(reinterpret_cast<const char*>(&seal), sizeof seal));
    EXPECT_THAT(refusal(folder_ / "input.index", list_),
                HasSubstr("it has version 2, and this program reads version 1"));
    folder_.write("input.index", changed + "more");
    EXPECT_THAT(refusal(folder_ / "input.index", list_), HasSubstr("it is truncated"));
    EXPECT_THAT(refusal(folder_ / "missing", list_), HasSubstr("No such file"));
    folder_.write("input.index", changed.replace(8, 1, "\1"));
    EXPECT_THAT(refusal(folder_ / "input.index", list_), HasSubstr("it is damaged"));
}

TEST_F(ListIndexes, KeysAreOfTheFolderOfTheIndex) {
    begin(lines(12U << 20));
    EXPECT_THROW(ListIndex::read(folder_ / "input.index", list_, "/elsewhere/", owner()), Error);
}

// A change that keeps size and time is found by the shard that reads it.
TEST_F(ListIndexes, AShardRefusesOtherBytes) {
    const std::string text = lines(12U << 20);
    begin(text);
    struct stat before {};
    ASSERT_EQ(::stat(list_.c_str(), &before), 0);
    const std::size_t name = text.find("folder-", text.size() / 2);
    std::fstream(list_, std::ios::in | std::ios::out | std::ios::binary)
        .seekp(static_cast<std::streamoff>(name))
        .write("x", 1);
    const std::array<timespec, 2> times{before.st_atim, before.st_mtim};
    ASSERT_EQ(::utimensat(AT_FDCWD, list_.c_str(), times.data(), 0), 0);
    EXPECT_NE(open(1)->index(), nullptr);
    try {
        open(3);
        FAIL() << "no error";
    } catch (const ConfigError& error) {
        EXPECT_EQ(error.kind(), ErrorKind::BadInput);
        EXPECT_THAT(error.what(), HasSubstr("has changed since the job began"));
    }
}

}  // namespace
}  // namespace offramp
