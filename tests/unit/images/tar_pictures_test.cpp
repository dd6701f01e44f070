#include "common/app/images/tar_pictures.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstring>

#include "common/app/images/image_decode.hpp"
#include "common/app/images/tar_index.hpp"
#include "common/app/images/unreadable_item.hpp"
#include "common/base/error.hpp"
#include "tests/support/error_of.hpp"
#include "tests/unit/images/picture_files.hpp"
#include "tests/unit/images/tar_files.hpp"

namespace offramp {
namespace {

using test::gnu_member;
using test::pax_member;
using test::tar_end;
using test::tar_header;
using test::tar_member;
using test::tar_padded;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr ImageSize kSize{6, 4};

std::string picture(unsigned seed) { return encode_png(kSize, gradient(kSize, seed)); }

struct Indexed {
    std::vector<std::string> names, contents;
    std::optional<std::string> problem;
    TarLeftOut left_out;
};

Indexed index(const std::string& archive) {
    Indexed found;
    found.problem = index_tar(
        [&](std::uint64_t offset, char* to, std::size_t bytes) {
            const std::size_t there =
                offset < archive.size() ? std::min(bytes, archive.size() - static_cast<std::size_t>(offset)) : 0;
            std::memcpy(to, archive.data() + (there > 0 ? offset : 0), there);
            return there;
        },
        [&](const TarMember& member) {
            found.names.push_back(member.name);
            found.contents.push_back(
                archive.substr(std::min<std::size_t>(member.offset, archive.size()), member.bytes));
        },
        &found.left_out);
    return found;
}

TEST(TarIndex, FindsOrdinaryFilesAndTheirBytes) {
    const std::string long_name = std::string(180, 'd') + "/" + std::string(120, 'f') + ".jpg";
    const Indexed found = index(
        tar_header({.name = "folder/", .type = '5'}) + tar_member("a.jpg", "one") + tar_member("empty", "") +
        tar_header({.name = "link", .bytes = 3, .type = '2'}) + gnu_member(long_name, "two") +
        pax_member("pax/\xc3\xa4.jpg", std::string(700, 'p')) +
        tar_header({.name = "b.jpg", .bytes = 5, .type = '\0', .prefix = "pre/fix"}) + tar_padded("three") +
        tar_header({.name = "big.jpg", .size_field = std::string("\x80\0\0\0\0\0\0\0\0\0\0\x04", 12)}) +
        tar_padded("four") +
        tar_header({.name = "gnu.jpg", .bytes = 4, .prefix = "12345670123", .magic = std::string("ustar  \0", 8)}) +
        tar_padded("five") + tar_end());
    EXPECT_FALSE(found.problem) << *found.problem;
    EXPECT_THAT(found.names,
                ElementsAre("a.jpg", "empty", long_name, "pax/\xc3\xa4.jpg", "pre/fix/b.jpg", "big.jpg", "gnu.jpg"));
    EXPECT_THAT(found.contents, ElementsAre("one", "", "two", std::string(700, 'p'), "three", "four", "five"));
}

TEST(TarIndex, CountsSkippedMembers) {
    const std::string first = tar_member("a.jpg", "one") + tar_header({.name = "b.jpg", .type = '1'}) +
                              tar_header({.name = "c.jpg", .type = '2'}) +
                              tar_header({.name = "d.jpg", .bytes = 3, .type = 'S'}) + tar_padded("two") + tar_end();
    const Indexed alone = index(first + std::string(8192, '\0'));
    EXPECT_THAT(alone.names, ElementsAre("a.jpg"));
    EXPECT_EQ(alone.left_out.links, 2U);
    EXPECT_EQ(alone.left_out.sparse, 1U);
    EXPECT_FALSE(alone.left_out.continues_after_end);
    const Indexed joined = index(first + std::string(8192, '\0') + tar_member("e.jpg", "three") + tar_end());
    EXPECT_THAT(joined.names, ElementsAre("a.jpg"));
    EXPECT_TRUE(joined.left_out.continues_after_end);
}

TEST(TarIndex, ReportsATruncationAnywhere) {
    const std::string whole = gnu_member(std::string(130, 'n'), "one") + pax_member("two", std::string(600, 'p'));
    EXPECT_FALSE(index(whole + std::string(512, '\0')).problem);
    for (std::size_t kept = 0; kept <= whole.size(); ++kept) {
        const Indexed found = index(whole.substr(0, kept));
        ASSERT_TRUE(found.problem) << kept;
        EXPECT_THAT(*found.problem, StartsWith("truncated")) << kept;
    }
}

TEST(TarIndex, ReportsOtherFiles) {
    EXPECT_EQ(index(std::string(2000, 'x')).problem, "an invalid tar header at byte 0");
    std::string spoilt = tar_member("a", "1") + tar_member("b", "2") + tar_end();
    spoilt[1024 + 3] = 'x';
    EXPECT_EQ(index(spoilt).problem, "an invalid tar header at byte 1024");
    EXPECT_THAT(index(spoilt).names, ElementsAre("a"));
    EXPECT_EQ(index(tar_header({.name = "x", .bytes = 6, .type = 'x'}) + tar_padded("9 a=b\n") + tar_end()).problem,
              "invalid pax records at byte 512");
    EXPECT_EQ(index(tar_header({.name = "L", .bytes = 2 << 20, .type = 'L'})).problem,
              "an extended header of 2097152 bytes at byte 0");
    EXPECT_EQ(index(tar_header({.name = "a",
                                .size_field = std::string("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", 12)}) +
                    tar_end())
                  .problem,
              "an invalid tar header at byte 0");
}

struct Shards : ::testing::Test {
    static std::vector<std::string> keys(const PictureList& pictures) {
        std::vector<std::string> all;
        for (std::uint64_t i = 0; i < pictures.size(); ++i) all.emplace_back(pictures.key(i));
        return all;
    }
    static std::string reason(const PictureList& pictures, std::uint64_t picture) {
        try {
            Rgb pixels(kSize.rgb_bytes());
            ImageDecoder().decode_file(pictures.place(picture), kSize, std::as_writable_bytes(std::span(pixels)));
        } catch (const UnreadableItem& unreadable) {
            return unreadable.what();
        }
        return "";
    }
    static Rgb pixels_of(const PictureList& pictures, std::uint64_t picture) {
        Rgb pixels;
        ImageDecoder().decode_file_in_full(pictures.place(picture), pixels);
        return pixels;
    }
    std::string refusal(const std::string& input, ErrorKind code = ErrorKind::NoInput) {
        return test::error_of<ConfigError>([&] { const TarPictures pictures(input); }, code);
    }

    TempFolder folder;
};

TEST_F(Shards, GroupsMembersByNameUpToTheFirstDot) {
    folder.write("b.tar", tar_member("./x/7.png", picture(1)) +
                              tar_member("./x/7.json", "{\"label\":\"chair\",\"n\":1}") +
                              tar_member("./x/7.cls", "3\n") + tar_member("x/8.seg.png", picture(2)) +
                              tar_member("x/8.PNG", picture(3)) + tar_end());
    folder.write("a.tar", tar_member("7.txt", "two\nlines\n") + tar_member("7.jpg", picture(4)) + tar_end());
    folder.write("below/c.tar", tar_member("7.webp", encode_webp(kSize, gradient(kSize, 5))) + tar_end());
    folder.write("notes.txt", "no shard");
    folder.write(".hidden.tar", "no shard");
    const TarPictures pictures(folder.path().string());
    EXPECT_THAT(keys(pictures), ElementsAre("a/7", "b/x/7", "b/x/8", "below/c/7"));
    const unsigned seeds[] = {4, 1, 3, 5};
    for (std::uint64_t i = 0; i < 4; ++i) EXPECT_EQ(pixels_of(pictures, i), gradient(kSize, seeds[i])) << i;
    EXPECT_EQ(pictures.columns(0), "{\"txt\":\"two\\nlines\"}");
    EXPECT_EQ(pictures.columns(1), "{\"cls\":\"3\",\"label\":\"chair\",\"n\":1}");
    EXPECT_EQ(pictures.columns(2), "{}");
    EXPECT_EQ(pictures.columns_hash(2), 0U);
    EXPECT_NE(pictures.columns_hash(1), 0U);
    EXPECT_EQ(pictures.description(), "4 samples of 3 shards of " + folder.path().string());
    EXPECT_EQ(pictures.origin(1), folder / "b.tar (b/x/7)");
    EXPECT_EQ(keys(TarPictures(folder / "b.tar")),
              (std::vector<std::string>{"b/x/7", "b/x/8"}));  // the same as in several shards
}

TEST_F(Shards, KeepsNamesUniqueAndBelowTheOutput) {
    folder.write("s.tar", tar_member("../../../etc/a.png", picture(1)) + tar_member("/abs/b.png", picture(2)) +
                              tar_member("c d/\xe5\x86\x99.png", picture(3)) + tar_member(".dot.png", picture(3)) +
                              tar_member("__meta__", "x") + tar_member("nodot", "x") + tar_member("r.png", picture(4)) +
                              tar_member("q.png", picture(4)) + tar_member("r.png", picture(5)) + tar_end());
    const TarPictures pictures(folder / "s.tar");
    EXPECT_THAT(keys(pictures), ElementsAre("etc/a", "s/abs/b", "s/c d/\xe5\x86\x99", "s/r", "s/q", "s/r-2"));
    EXPECT_EQ(pixels_of(pictures, 5), gradient(kSize, 5));
}

std::vector<std::string> left_out_texts(const std::vector<LeftOut>& parts) {
    std::vector<std::string> lines;
    for (const LeftOut& part : parts) lines.push_back(std::to_string(part.count) + " " + part.what);
    return lines;
}

TEST_F(Shards, EachPictureOfASampleIsAnItem) {
    folder.write("s.tar", tar_member("a.left.png", picture(1)) + tar_member("a.right.png", picture(2)) +
                              tar_member("a.right.cls", "r") + tar_member("a.json", "{\"n\":1}") +
                              tar_member("2024.05.01.png", picture(3)) + tar_member("2024.05.02.png", picture(4)) +
                              tar_member("2024.05.02.txt", "two") + tar_member("b.only.png", picture(5)) +
                              tar_member("b.only.cls", "5") + tar_end());
    const TarPictures pictures(folder / "s.tar");
    EXPECT_THAT(keys(pictures), ElementsAre("s/a.left", "s/a.right", "s/2024.05.01", "s/2024.05.02", "s/b"));
    for (std::uint64_t i = 0; i < 5; ++i)
        EXPECT_EQ(pixels_of(pictures, i), gradient(kSize, static_cast<unsigned>(i + 1))) << i;
    EXPECT_EQ(pictures.columns(0), "{\"n\":1}");
    EXPECT_EQ(pictures.columns(1), "{\"cls\":\"r\",\"n\":1}");
    EXPECT_EQ(pictures.columns(2), "{}");
    EXPECT_EQ(pictures.columns(3), "{\"txt\":\"two\"}");
    EXPECT_EQ(pictures.columns(4), "{\"cls\":\"5\"}");
    EXPECT_THAT(left_out_texts(pictures.left_out()), ElementsAre());
}

TEST_F(Shards, CountsUnusedMembers) {
    folder.write("s.tar", tar_member("a.png", picture(1)) + tar_member("a.mask.png", picture(2)) +
                              tar_member("a.png", picture(3)) + tar_member("a.json", "{}") +
                              tar_member("a.json", "{}") + tar_member("a.mask.cls", "1") + tar_member("a.npy", "x") +
                              tar_member("nodot", "x") + tar_header({.name = "b.png", .type = '2'}) +
                              tar_member("c.l.png", picture(4)) + tar_member("c.l.jpg", picture(5)) +
                              tar_member("c.r.png", picture(6)) + tar_end());
    const TarPictures pictures(folder / "s.tar");
    EXPECT_THAT(keys(pictures), ElementsAre("s/a", "s/c.l", "s/c.r"));
    EXPECT_THAT(left_out_texts(pictures.left_out()),
                ElementsAre("1 members that are links", "2 further pictures of samples that already have one",
                            "2 members whose sample already has one of that name",
                            "3 members other than pictures and their .json, .txt and .cls"));
}

TEST_F(Shards, WritesNumbersThatJsonLacksAsNull) {
    folder.write("s.tar", tar_member("a.png", picture(1)) +
                              tar_member("a.json", R"({"a":NaN,"b":[-Infinity,Infinity],"c":"NaN \"NaN","NaN":1})") +
                              tar_end());
    EXPECT_EQ(TarPictures(folder / "s.tar").columns(0), R"({"NaN":1,"a":null,"b":[null,null],"c":"NaN \"NaN"})");
}

TEST_F(Shards, CountsASampleWithoutAPicture) {
    folder.write("s.tar", tar_member("a.json", "{}") + tar_member("a.seg.npy", "x") + tar_member("b.png", picture(1)) +
                              tar_member("b.json", "[]") + tar_end());
    const TarPictures pictures(folder / "s.tar");
    EXPECT_EQ(reason(pictures, 0), "no picture among the sample's members (json, seg.npy)");
    EXPECT_EQ(reason(pictures, 1), "");
    EXPECT_THROW(pictures.columns(1), UnreadableItem);
    EXPECT_EQ(pictures.description(), "2 samples of 1 shards of " + folder / "s.tar" + ", 1 of them unusable");
}

TEST_F(Shards, ReportsUnreadableColumnsAndContinues) {
    const std::string deep(200'000, '['), end(200'000, ']');
    folder.write("s.tar", tar_member("a.png", picture(1)) + tar_member("a.json", "{\"v\":1e999}") +
                              tar_member("b.png", picture(1)) + tar_member("b.json", "{\"v\":" + deep + end + "}") +
                              tar_member("c.png", picture(1)) + tar_member("c.json", "{\"v\":") +
                              tar_member("d.png", picture(1)) + tar_member("d.json", "{\"v\":[[1e99]]}\n") + tar_end());
    const TarPictures pictures(folder / "s.tar");
    const auto complaint = [&](std::uint64_t picture) {
        try {
            return pictures.columns(picture);
        } catch (const UnreadableItem& unreadable) {
            return std::string(unreadable.what());
        }
    };
    EXPECT_EQ(complaint(0), "its .json: a number beyond the range of a double: '1e999'");
    EXPECT_EQ(complaint(1), "its .json: nested deeper than 64 levels");
    EXPECT_EQ(complaint(2), "its .json: not JSON: it breaks at byte 6");
    EXPECT_EQ(complaint(3), "{\"v\":[[1e+99]]}");
    for (std::uint64_t i = 0; i < 4; ++i) EXPECT_EQ(pixels_of(pictures, i), gradient(kSize, 1)) << i;
}

TEST_F(Shards, ReadsATruncatedShardUpToItsEndAndCountsIt) {
    const std::string whole = tar_member("a.png", picture(1)) + tar_member("b.png", picture(2)) + tar_end();
    folder.write("0.tar", whole.substr(0, whole.size() - 1024 - 512));  // within the second picture's padding or bytes
    folder.write("1.tar", whole);
    const TarPictures pictures(folder.path().string());
    EXPECT_THAT(keys(pictures), ElementsAre("0/a", "0/b", "0/(broken)", "1/a", "1/b"));
    EXPECT_EQ(reason(pictures, 0), "");
    EXPECT_THAT(reason(pictures, 1), StartsWith("truncated: "));
    EXPECT_THAT(reason(pictures, 2), HasSubstr("the shard cannot be read: truncated"));
    EXPECT_EQ(reason(pictures, 4), "");
}

TEST_F(Shards, CountsAnUnreadableShard) {
    folder.write("0.tar", std::string("\x1f\x8b\x08", 3) + std::string(1000, 'z'));
    folder.write("1.tar", tar_member("a.png", picture(1)) + tar_end());
    std::filesystem::create_symlink("/no/such/file", folder / "2.tar");
    ASSERT_EQ(::mkfifo((folder / "3.tar").c_str(), 0644), 0);
    std::filesystem::create_symlink("/proc/self/mem", folder / "4.tar");  // a regular file whose front is unreadable
    const TarPictures pictures(folder.path().string());
    EXPECT_THAT(keys(pictures), ElementsAre("0/(broken)", "1/a", "2/(broken)", "3/(broken)", "4/(broken)"));
    EXPECT_THAT(reason(pictures, 0), HasSubstr("gunzip"));
    EXPECT_THAT(reason(pictures, 2), HasSubstr("No such file"));
    EXPECT_THAT(reason(pictures, 3), HasSubstr("not a regular file"));
    EXPECT_THAT(reason(pictures, 4), HasSubstr("cannot be read: Input/output error"));
    EXPECT_THROW(pictures.columns(2), UnreadableItem);
}

TEST_F(Shards, RefusesAShardWithoutSamples) {
    EXPECT_THAT(refusal(""), HasSubstr("none is given"));
    EXPECT_THAT(refusal(folder / "none.tar"), HasSubstr("no such file"));
    EXPECT_THAT(refusal(folder.path().string()), HasSubstr("no .tar file"));
    EXPECT_THAT(refusal(folder.write("e.tar", tar_end())), HasSubstr("no samples in 1 shard"));
}

}  // namespace
}  // namespace offramp
