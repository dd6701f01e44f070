#include "common/app/images/item_keys.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <rapidcheck.h>

#include <set>
#include <system_error>
#include <thread>

#include "common/base/utf8.hpp"
#include "common/wire/slab_header.hpp"
#include "tests/support/sanitizers.hpp"

namespace offramp {
namespace {

using ::testing::ElementsAre;
using Names = std::vector<std::string>;

Names make_item_keys(const Names& names, NamesAre names_are = NamesAre::Files) {
    StringList list;
    for (const std::string& name : names) list.push_back(name);
    const ItemKeys keys(std::move(list), names_are);
    Names made;
    for (std::uint64_t item = 0; item < keys.size(); ++item) made.emplace_back(keys[item]);
    return made;
}

TEST(ItemKeys, OmitTheExtensionWhereTheRestIsUnique) {
    EXPECT_THAT(make_item_keys({"a.jpg", "b/c.PNG", "b/d.tar.jpeg", "e.data"}),
                ElementsAre("a", "b/c", "b/d.tar", "e.data"));
}

TEST(ItemKeys, KeepTheExtensionWhereOnlyItDiffers) {
    EXPECT_THAT(make_item_keys({"a.jpg", "a.png", "b.jpg"}), ElementsAre("a.jpg", "a.png", "b"));
}

TEST(ItemKeys, CountRepeatedEntries) {
    EXPECT_THAT(make_item_keys({"a.jpg", "a.jpg", "a.jpg"}), ElementsAre("a.jpg", "a.jpg-2", "a.jpg-3"));
}

TEST(ItemKeys, SkipATakenNumber) {
    EXPECT_THAT(make_item_keys({"a.jpg", "a.jpg", "a.jpg-2"}), ElementsAre("a.jpg", "a.jpg-3", "a.jpg-2"));
    // "a.jpg.png" is unique as "a.jpg"; the pair that needs its extensions comes second.
    EXPECT_THAT(make_item_keys({"a.jpg", "a.png", "a.jpg.png"}), ElementsAre("a.jpg-2", "a.png", "a.jpg"));
}

TEST(ItemKeys, AreRelativeAndWithoutDots) {
    EXPECT_THAT(make_item_keys({"/data/a.jpg", "../../b.jpg", "x/../y/./c.jpg", "//d.jpg", ".."}),
                ElementsAre("data/a", "b", "y/c", "d", "item"));
}

TEST(ItemKeys, IdsKeepAnApparentExtension) {
    EXPECT_THAT(make_item_keys({"a.jpg", "a.png", "b", "x/../b"}, NamesAre::Ids),
                ElementsAre("a.jpg", "a.png", "b", "b-2"));
}

TEST(ItemKeys, AvoidOfframpsNames) {
    EXPECT_THAT(make_item_keys({".offramp-checkpoint.jpg", "a/.offramp-tmp-1/b.jpg", "_offramp-checkpoint.jpg"}),
                ElementsAre("_offramp-checkpoint.jpg", "a/_offramp-tmp-1/b", "_offramp-checkpoint.jpg-2"));
}

TEST(ItemKeys, KeepSpacesAndLettersOfAnyScript) {
    const Names names{"My Pictures/caf\xc3\xa9 1", "\xe5\x86\x99\xe7\x9c\x9f/\xf0\x9f\x93\xb7", "a'b\"c;$d\\e"};
    Names files;
    for (const std::string& name : names) files.push_back(name + ".jpg");
    EXPECT_EQ(make_item_keys(files), names);
}

// So many that several threads work on parts of them.
TEST(ItemKeys, FewEqualOnesAreFoundAmongMillions) {
    constexpr std::uint64_t kNames = 2'100'000;
    StringList names;
    for (std::uint64_t i = 0; i < kNames; ++i)
        names.push_back(i == 1'000'000 ? "even/8.png/b.jpg"
                                       : (i % 2 == 0 ? "even/" : "odd/") + std::to_string(i == 7 ? kNames - 1 : i) +
                                             (i == 1'999'998 ? "\n.jpg" : ".jpg"));
    const ItemKeys keys(std::move(names));
    EXPECT_EQ(keys[6], "even/6");
    EXPECT_EQ(keys[7], "odd/2099999.jpg");
    EXPECT_EQ(keys[kNames - 1], "odd/2099999.jpg-2");
    EXPECT_EQ(keys[kNames - 3], "odd/2099997");
    EXPECT_EQ(keys[8], "even/8-2");
    EXPECT_EQ(keys[1'000'000], "even/8.png/b");
    EXPECT_EQ(keys[1'999'998], "even/1999998_");
}

TEST(ItemKeys, HiddenFilesKeepTheirNames) { EXPECT_THAT(make_item_keys({".jpg"}), ElementsAre(".jpg")); }

TEST(ItemKeys, ReplaceUnprintableCharacters) {
    EXPECT_THAT(make_item_keys({"a\nb\x7f.jpg", "c\xff\xc3.jpg", "\xc3\xa4.jpg"}),
                ElementsAre("a_b_", "c__", "\xc3\xa4"));
    // C1 (CSI), a change of direction, a line separator; and their neighbours that are text.
    EXPECT_THAT(make_item_keys(
                    {"a\u009b31m.jpg", "b\u202egpj.exe", "c\u2028", "d\u2066\u061c", "\u00a0\u2027\u202f\u2065\u00e9"}),
                ElementsAre("a_31m", "b_gpj.exe", "c_", "d__", "\u00a0\u2027\u202f\u2065\u00e9"));
}

TEST(ItemKeys, CutLongPartsAndPathsToUniqueOnes) {
    const std::string part(240, 'p');
    const auto keys = make_item_keys({part + "1.jpg", part + "2.jpg"});
    EXPECT_EQ(keys[0].size(), 200U);
    EXPECT_NE(keys[0], keys[1]);
    std::string deep;
    for (int i = 0; i < 300; ++i) deep += "folder/";
    const auto deep_keys = make_item_keys({deep + "1.jpg", deep + "2.jpg", deep + "2.jpg"});
    for (const auto& key : deep_keys) EXPECT_LE(key.size(), kMaxKeyBytes);
    EXPECT_EQ(std::set(deep_keys.begin(), deep_keys.end()).size(), 3U);
}

TEST(ItemKeys, CutOnlyBetweenCharacters) {
    std::string umlauts;
    for (int i = 0; i < 150; ++i) umlauts += "\xc3\xa4";
    EXPECT_TRUE(is_utf8(make_item_keys({umlauts + ".jpg"})[0]));
}

// a.jpg's mask would be the file a.png where b.png's mask needs a folder of that name.
TEST(ItemKeys, NoResultIsAnotherItemsFolder) {
    EXPECT_THAT(make_item_keys({"a.jpg", "a.png/b.png"}), ElementsAre("a-2", "a.png/b"));
    EXPECT_THAT(make_item_keys({"a.jpg", "a.scores.npy/b.png", "x/a.jpg"}),
                ElementsAre("a-2", "a.scores.npy/b", "x/a"));
    EXPECT_THAT(make_item_keys({"x/a.jpg", "x/a.jpg/1.jpg", "x/a-2.jpg", "x/a-3.png/1.jpg"}),
                ElementsAre("x/a-4", "x/a.jpg/1", "x/a-2", "x/a-3.png/1"));
    EXPECT_THAT(make_item_keys({"a.jpg", "a.backup/b.png", "c.png/d.png"}), ElementsAre("a", "a.backup/b", "c.png/d"))
        << "no collision";
}

TEST(ItemKeys, OfAPartAreThoseOfTheWholeIfIndependent) {
    const StringList names{"/root/in/a.jpg", "./b.png", "../c/../d.gif", "\xff/e", "a/.offramp-x.tif", "a/b.png"};
    const auto copy = [&](std::size_t from) {
        StringList some;
        for (std::size_t i = from; i < names.size(); ++i) some.push_back(names[i]);
        return some;
    };
    const ItemKeys whole(copy(0), NamesAre::Files, "/root/in/");
    EXPECT_TRUE(whole.are_independent());
    for (std::size_t from = 0; from < names.size(); ++from) {
        const ItemKeys part = ItemKeys::of_part(copy(from), NamesAre::Files, "/root/in/");
        for (std::size_t i = 0; i < part.size(); ++i) EXPECT_EQ(part[i], whole[from + i]);
    }
    EXPECT_FALSE(ItemKeys({"a.jpg", "b.jpg", "a.png"}).are_independent()) << "they keep their extensions";
    EXPECT_FALSE(ItemKeys({"a.jpg", "a.png/b.jpg"}).are_independent()) << "a.png is the folder of another item";
}

// Every start of a thread fails: no address space has room for its stack.
TEST(ItemKeys, NeedNoThreads) {
    if (test::has_sanitizer()) GTEST_SKIP() << "takes minutes, and has one thread";
    pthread_attr_t before, endless;
    ASSERT_EQ(::pthread_getattr_default_np(&before), 0);
    ASSERT_EQ(::pthread_getattr_default_np(&endless), 0);
    ASSERT_EQ(::pthread_attr_setstacksize(&endless, std::size_t{1} << 50), 0);
    ASSERT_EQ(::pthread_setattr_default_np(&endless), 0);
    EXPECT_THROW(std::thread([] {}).join(), std::system_error);
    Names names(1'000'001, "same.jpg");
    for (std::size_t i = 0; i < names.size() - 2; ++i) names[i] = std::to_string(i);
    const Names keys = make_item_keys(names);
    EXPECT_EQ(keys.back(), "same.jpg-2");
    EXPECT_EQ(::pthread_setattr_default_np(&before), 0);
}

TEST(ItemKeys, AnyListGivesUniqueCleanKeys) {
    rc::check([] {
        // Few letters, so that names often collide.
        const auto name = rc::gen::container<std::string>(rc::gen::elementOf(std::string("ab./-2\xc3\xa4\n")));
        const auto ending =
            rc::gen::elementOf(Names{"", "/.offramp-a", ".jpg", ".png", "-2", ".jpg-2", ".png/a.jpg", ".b.png/a"});
        Names names;
        for (const auto& [front, back] :
             *rc::gen::container<std::vector<std::pair<std::string, std::string>>>(rc::gen::pair(name, ending)))
            names.push_back(front + back);
        const Names keys = make_item_keys(names);
        RC_ASSERT(keys.size() == names.size());
        RC_ASSERT(std::set(keys.begin(), keys.end()).size() == keys.size());
        RC_ASSERT(keys == make_item_keys(names));
        for (const std::string& key : keys) {
            for (const std::string& other : keys)
                for (const char* suffix : {".png/", ".b.png/"}) RC_ASSERT(!other.starts_with(key + suffix));
            RC_ASSERT(!key.empty() && key.front() != '/' && key.size() <= kMaxKeyBytes && is_utf8(key));
            const std::string framed = "/" + key + "/";
            RC_ASSERT(framed.find("/../") == std::string::npos && framed.find("/./") == std::string::npos);
            RC_ASSERT(framed.find("/.offramp-") == std::string::npos);
            RC_ASSERT(framed.find("//") == std::string::npos && key.find('\n') == std::string::npos);
        }
    });
}

TEST(Printable, EscapesUnprintableCharacters) {
    EXPECT_EQ(printable("a\nb\xff\xc3\xa4"), "a\\x0ab\\xff\xc3\xa4");
    EXPECT_EQ(printable("\u009b\u202e"), "\\xc2\\x9b\\xe2\\x80\\xae");
}

TEST(ItemKeys, PillowsExtensionsOfReadableFormatsArePictures) {
    for (const std::string extension :
         {"apng", "bmp", "gif", "jfif", "jpe", "jpeg", "jpg", "png", "tif", "tiff", "webp", "JFIF", "Jpe"}) {
        EXPECT_TRUE(has_image_extension("a." + extension)) << extension;
        EXPECT_EQ(without_image_extension("b/a." + extension), "b/a");
    }
    for (const char* const name :
         {"a.txt", "a.jpgx", ".jpg", "jpe", "a/.png", "a.png/b", "a.png/", "png", "a.jpeg2", "."})
        EXPECT_FALSE(has_image_extension(name)) << name;
}

}  // namespace
}  // namespace offramp
