#include "consumer/sinks/files/stream_file.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <optional>

#include "common/base/error.hpp"
#include "tests/contract/processors/processor_world.hpp"

namespace offramp {
namespace {

using test::ScratchFolder;

constexpr std::byte kBytes[1000]{};

ErrorKind code_of(const std::function<void()>& call) {
    try {
        call();
    } catch (const Error& error) {
        return error.kind();
    }
    return ErrorKind::None;
}

TEST(StreamFile, WritesToADevice) { EXPECT_NO_THROW(StreamFile("/dev/null").write(kBytes)); }

TEST(StreamFile, ReportsAFullDevice) {
    StreamFile full("/dev/full");
    EXPECT_EQ(code_of([&] { full.write(kBytes); }), ErrorKind::CannotWrite);
}

TEST(StreamFile, WritesToAFifoInSequence) {
    const ScratchFolder folder;
    const std::string path = folder.path() + "/fifo";
    ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
    const UniqueFd reader(::open(path.c_str(), O_RDONLY | O_NONBLOCK));
    StreamFile fifo(path);
    fifo.write(std::as_bytes(std::span(std::string_view("one "))));
    fifo.write(std::as_bytes(std::span(std::string_view("two"))));
    char text[16]{};
    EXPECT_EQ(::read(reader.get(), text, sizeof text), 7);
    EXPECT_STREQ(text, "one two");
}

TEST(StreamFile, AFifoWithoutReaderIsAnUnavailableSink) {
    const ScratchFolder folder;
    const std::string path = folder.path() + "/fifo";
    ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
    EXPECT_EQ(code_of([&] { const StreamFile fifo(path); }), ErrorKind::SinkUnavailable);
    UniqueFd reader(::open(path.c_str(), O_RDONLY | O_NONBLOCK));
    StreamFile fifo(path);
    reader.reset();
    EXPECT_EQ(code_of([&] { fifo.write(kBytes); }), ErrorKind::SinkUnavailable);
}

TEST(StreamFile, RefusesAnOrdinaryFile) {
    const ScratchFolder folder;
    const std::string path = folder.path() + "/file";
    std::ofstream(path) << "text";
    EXPECT_EQ(code_of([&] { const StreamFile file(path); }), ErrorKind::Usage);
}

}  // namespace
}  // namespace offramp
