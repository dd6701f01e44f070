#include "producer/runner/run/run_parts.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <utility>
#include <vector>

#include "common/base/error.hpp"
#include "tests/contract/processors/processor_world.hpp"

namespace offramp {
namespace {

class Files final : public BatchSource {
  public:
    explicit Files(std::vector<std::pair<std::string, std::string>> keys_and_files) : all_(std::move(keys_and_files)) {}
    std::string description() const override { return "files"; }
    std::uint64_t items() const override { return all_.size(); }
    RowKind row_kind() const override { return RowKind::Pixels; }
    std::string_view key(std::uint64_t item) const override { return all_[item].first; }
    std::size_t max_key_bytes() const override { return 24; }
    std::string origin(std::uint64_t item) const override { return all_[item].second; }
    std::string file(std::uint64_t item) const override { return all_[item].second; }
    std::string_view end_of_file(std::uint64_t item) const override {
        const std::string_view file = all_[item].second;
        return item % 2 == 0 ? file.substr(file.rfind('/')) : std::string_view();
    }
    void load(std::uint64_t, std::span<std::byte>) override {}

  private:
    std::vector<std::pair<std::string, std::string>> all_;
};

class Numbers final : public BatchSource {
  public:
    std::string description() const override { return "numbers"; }
    std::uint64_t items() const override { return std::uint64_t{1} << 60; }
    RowKind row_kind() const override { return RowKind::Nothing; }
    std::string_view key(std::uint64_t) const override { return {}; }
    std::size_t max_key_bytes() const override { return 0; }
    std::string origin(std::uint64_t) const override { return {}; }
    bool has_files() const override { return false; }
    void load(std::uint64_t, std::span<std::byte>) override {}
};

struct ResultsApart : ::testing::Test {
    void SetUp() override {
        std::filesystem::create_directories(in("photos/2024"));
        std::filesystem::create_directory_symlink(in("photos"), in("link"));
    }
    std::string in(const std::string& name) const { return folder.path() + "/" + name; }
    bool refused(const std::string& output, const std::string& processor,
                 const std::vector<std::pair<std::string, std::string>>& items, const std::string& input = "") {
        RunConfig config;
        config.output = output;
        config.processor = processor;
        config.input = input;
        try {
            require_results_apart(config, Files(items));
        } catch (const ConfigError& problem) {
            EXPECT_NE(std::string(problem.what()).find(output), std::string::npos) << problem.what();
            return true;
        }
        return false;
    }

    test::ScratchFolder folder;
};

TEST_F(ResultsApart, RefusesAResultNamedLikeAnInputPicture) {
    EXPECT_TRUE(refused(in("photos"), "cut-out", {{"cat", in("photos/cat.png")}}));
    EXPECT_TRUE(refused(in("photos"), "mask-png", {{"cat", in("photos/cat.classes.png")}})) << "one of several outputs";
    EXPECT_TRUE(refused(in("photos"), "overlay", {{"cat", in("photos/cat.jpg")}}));
    EXPECT_TRUE(refused(in("photos"), "of-a-plug-in", {{"cat", in("photos/cat.webp")}}));
    EXPECT_TRUE(refused(in("photos"), "cut-out", {{"2024/cat", in("photos/2024/cat.png")}}));
    EXPECT_TRUE(refused(in("photos"), "cut-out", {{"dog", in("photos/dog.jpg")}, {"x", in("photos/dog.aux.png")}}))
        << "another item's";
}

TEST_F(ResultsApart, FollowsALinkToTheSameFolder) {
    EXPECT_TRUE(refused(in("link"), "cut-out", {{"cat", in("photos/cat.png")}}));
    EXPECT_TRUE(refused(in("photos"), "cut-out", {{"cat", in("link/cat.png")}}));
    EXPECT_TRUE(refused(in("photos/2024/.."), "cut-out", {{"cat", in("photos/./cat.png")}}));
}

TEST_F(ResultsApart, EachOfSeveralProcessorsHasAFolder) {
    EXPECT_TRUE(refused(folder.path(), "records,photos", {{"cat", in("photos/cat.png")}}));
    EXPECT_FALSE(refused(in("photos"), "records,cut-out", {{"cat", in("photos/cat.png")}}));
}

TEST_F(ResultsApart, AcceptsNamesThatNoResultHas) {
    EXPECT_FALSE(refused(in("photos"), "cut-out", {{"cat", in("photos/cat.jpg")}})) << "cat.png is added";
    EXPECT_FALSE(
        refused(in("photos"), "cut-out", {{"cat.png", in("photos/cat.png")}, {"cat.jpg", in("photos/cat.jpg")}}));
    EXPECT_FALSE(refused(folder.path(), "cut-out", {{"cat", in("photos/cat.png")}}));
    EXPECT_FALSE(refused(in("photos"), "mask-rle", {{"cat", in("photos/cat.png")}}));
    EXPECT_FALSE(refused(in("photos/new"), "cut-out", {{"cat", in("photos/cat.png")}}));
    EXPECT_FALSE(refused("", "cut-out", {{"cat", in("photos/cat.png")}}));
}

TEST_F(ResultsApart, DoesNotCheckItemsThatAreNotFiles) {
    RunConfig config;
    config.output = folder.path();
    config.processor = "mask-png";
    EXPECT_NO_THROW(require_results_apart(config, Numbers())) << "and in a short time";
}

TEST_F(ResultsApart, RefusesResultsThatWouldBecomeInput) {
    for (const char* output : {"photos", "photos/masks", "photos/2024", "link", "link/new/deep", "photos/x/.."})
        EXPECT_TRUE(refused(in(output), "mask-rle", {}, in("photos"))) << output;
    EXPECT_TRUE(refused(folder.path(), "records,photos", {}, in("photos")));
    for (const char* output : {"masks", "photos-masks", "photos/.."})
        EXPECT_FALSE(refused(in(output), "mask-rle", {}, in("photos"))) << output;
}

TEST_F(ResultsApart, DoesNotReplaceTheInput) {
    EXPECT_TRUE(refused(in("photos"), "mask-rle", {}, in("photos/masks.jsonl")));
    EXPECT_TRUE(refused(in("photos"), "checksum", {}, in("link/checksums.tsv")));
    EXPECT_FALSE(refused(in("photos"), "mask-rle", {}, in("photos/list.jsonl")));
}

}  // namespace
}  // namespace offramp
