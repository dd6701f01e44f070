#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/error.hpp"
#include "common/base/unique_fd.hpp"
#include "tests/contract/processors/processor_world.hpp"

namespace offramp {
namespace {

using test::ScratchFolder;

std::string text_of(std::span<const std::byte> bytes) {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

class Write : public ::testing::TestWithParam<bool> {
  protected:
    RunConfig config(const std::string& path) const {
        RunConfig config;
        config.processor = "write";
        config.catalogue.put("write-path", path);
        config.catalogue.put("write-copy", GetParam());
        return config;
    }
};

TEST_P(Write, WritesAFilePerSampleAndOutputIntoAFolder) {
    const ScratchFolder folder;
    std::vector<test::MemorySlab> slabs;
    slabs.push_back(test::make_slab(4, 2));
    const SlabContents contents = slabs.front().contents();
    const std::string name = "folder 2/image\\5.jpg";
    EXPECT_EQ(test::run_over(config(folder.path()), folder.path(), slabs),
              (test::Tree{{"folder 2", ""},
                          {name + ".scores.bin", text_of(contents.tensors[0].row(1))},
                          {name + ".extra.bin", text_of(contents.tensors[1].row(1))},
                          {name + ".embedding.bin", text_of(contents.tensors[2].row(1))}}));
}

TEST_P(Write, WritesSamplesWithoutHolesIntoAFifo) {
    const ScratchFolder folder;
    const std::string path = folder.path() + "/fifo";
    ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
    const UniqueFd reader(::open(path.c_str(), O_RDONLY | O_NONBLOCK));
    const test::MemorySlab slab = test::make_slab(3, 4);  // the second one is a hole
    const SlabContents contents = slab.contents();
    const RunConfig settings = config(path);
    make_processor("write", settings)->process(contents, test::kNoProgress, test::kCurrent);
    std::string wanted;
    for (const TensorView& tensor : contents.tensors)
        for (const std::size_t row : {0U, 2U, 3U}) wanted += text_of(tensor.row(row));
    std::string found(wanted.size() + 1, '?');
    ASSERT_EQ(::read(reader.get(), found.data(), found.size()), static_cast<ssize_t>(wanted.size()));
    found.resize(wanted.size());
    EXPECT_EQ(found, wanted);
}

TEST_P(Write, WritesToDevNull) {
    const RunConfig settings = config("/dev/null");
    EXPECT_NO_THROW(make_processor("write", settings)
                        ->process(test::make_slab(0, 8).contents(), test::kNoProgress, test::kCurrent));
}

TEST_P(Write, RefusesAnOrdinaryFileOrNoPath) {
    const RunConfig ordinary = config("/etc/passwd");
    EXPECT_THROW(make_processor("write", ordinary), ConfigError);
    const RunConfig none = config("");
    EXPECT_THROW(make_processor("write", none), ConfigError);
}

INSTANTIATE_TEST_SUITE_P(WithAndWithoutCopy, Write, ::testing::Bool());

}  // namespace
}  // namespace offramp
