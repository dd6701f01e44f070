#include "common/transport/endpoint.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>

#include "common/base/error.hpp"
#include "tests/unit/transport/temporary_folder.hpp"

namespace offramp {
namespace {

using support::TemporaryRunFolder;

constexpr const char* kValid = "offramp-endpoint=1\nrun_id=r\nnonce=00000000000000ff\nproducer_pid=7\nepoch=3\n";

ErrorKind kind_of(const std::function<void()>& call, std::string* text = nullptr) {
    try {
        call();
    } catch (const Error& problem) {
        if (text) *text = problem.what();
        return problem.kind();
    }
    return ErrorKind::None;
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
    return text.replace(text.find(from), from.size(), to);
}

TEST(Endpoint, NamesItsPlaces) {
    const Endpoint endpoint{"/tmp/r", {"r", 1}, 7, 1};
    EXPECT_EQ(endpoint.work_address(), "ipc:///tmp/r/live/work-00000002.sock");
    EXPECT_EQ(endpoint.free_list_address(), "ipc:///tmp/r/live/free-00000002.sock");
    EXPECT_EQ(endpoint.file(), "/tmp/r/live/endpoint");
}

TEST(Endpoint, EachRunAndEpochHasItsOwnSockets) {
    const Endpoint next{"/tmp/r", {"r", 1}, 7, 12};
    EXPECT_EQ(next.work_address(), "ipc:///tmp/r/live/work-0000000d.sock");
    EXPECT_EQ(next.free_list_address(), "ipc:///tmp/r/live/free-0000000d.sock");
    const Endpoint other{"/tmp/r", {"r", 0xfedcba9876543210}, 7, 1};
    EXPECT_EQ(other.work_address(), "ipc:///tmp/r/live/work-76543211.sock");
    EXPECT_EQ(other.free_list_address(), "ipc:///tmp/r/live/free-76543211.sock");
}

// The format that other programs, such as the launcher, read.
TEST(Endpoint, IsWrittenInThisForm) {
    const TemporaryRunFolder folder;
    Endpoint{folder.path(), {"nightly-7", 0xc0ffee}, 4711, 2}.publish();
    std::ifstream in(folder.file("live/endpoint"));
    EXPECT_EQ(std::string(std::istreambuf_iterator<char>(in), {}),
              "offramp-endpoint=1\nrun_id=nightly-7\nnonce=0000000000c0ffee\nproducer_pid=4711\nepoch=2\n");
}

TEST(Endpoint, ListsTheGroupsAndEachGroupHasItsOwn) {
    const TemporaryRunFolder folder;
    const Endpoint run{folder.path(), {"r", 0xff}, 7, 3, {"masks", "vectors"}};
    std::filesystem::create_directories(Endpoint::group_dir(folder.path(), "masks") + "/live");
    run.publish();
    run.of_group("masks").publish();
    const auto text_of = [&](const std::string& file) {
        std::ifstream in(folder.file(file));
        return std::string(std::istreambuf_iterator<char>(in), {});
    };
    EXPECT_EQ(text_of("live/endpoint"), std::string(kValid) + "groups=masks,vectors\n");
    EXPECT_EQ(text_of("groups/masks/live/endpoint"), std::string(kValid) + "group=masks\n");

    const auto whole = Endpoint::read(folder.path());
    EXPECT_EQ(whole->groups, run.groups);
    EXPECT_EQ(whole->names.group, "");
    const auto group = Endpoint::read(folder.file("groups/masks"));
    EXPECT_EQ(group->names.ledger(), run.names.of_group("masks").ledger());
    EXPECT_EQ(group->groups, std::vector<std::string>{});
    EXPECT_EQ(group->work_address(), "ipc://" + folder.file("groups/masks/live/work-00000102.sock"));
}

TEST(Endpoint, SendsAConsumerOfTheRunToAGroup) {
    Endpoint endpoint{"/tmp/r", {"r", 1}, 7, 1};
    EXPECT_EQ(kind_of([&] { endpoint.require_no_groups(); }), ErrorKind::None);
    endpoint.groups = {"masks", "vectors"};
    EXPECT_EQ(kind_of([&] { endpoint.of_group("masks").require_no_groups(); }), ErrorKind::None);
    std::string text;
    EXPECT_EQ(kind_of([&] { endpoint.require_no_groups(); }, &text), ErrorKind::Usage);
    EXPECT_NE(text.find("(masks, vectors)"), std::string::npos) << text;
    EXPECT_NE(text.find("/tmp/r/groups/masks"), std::string::npos) << text;
}

TEST(Endpoint, IsReplacedAsAWhole) {
    const TemporaryRunFolder folder;
    Endpoint{folder.path(), {"a", 1}, 1, 1}.publish();
    std::ifstream before(folder.file("live/endpoint"));
    Endpoint{folder.path(), {"a", 1}, 1, 2}.publish();
    EXPECT_EQ(Endpoint::read(folder.path())->epoch, 2U);
    // A reader of the previous file still reads it to its end: it was not written.
    EXPECT_NE(std::string(std::istreambuf_iterator<char>(before), {}).find("epoch=1\n"), std::string::npos);
    EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.file("live")), {}), 1)
        << "no temporary file is left";
}

TEST(Endpoint, IsAbsentBeforeItIsPublished) {
    const TemporaryRunFolder folder;
    EXPECT_FALSE(Endpoint::read(folder.path()));
    EXPECT_FALSE(Endpoint::read(folder.file("no-such-folder")));
}

TEST(Endpoint, RefusesAnInvalidFile) {
    const TemporaryRunFolder folder;
    const std::string valid = kValid;
    const auto read_back = [&](const std::string& text) {
        std::ofstream(folder.file("live/endpoint")) << text;
        return kind_of([&] { Endpoint::read(folder.path()); });
    };
    ASSERT_EQ(read_back(valid), ErrorKind::None);
    ASSERT_EQ(read_back(replaced(valid, "run_id=r\n", "groups=a,b-2\nrun_id=r\n")), ErrorKind::None) << "any order";
    for (const std::string& text : {std::string(),
                                    valid.substr(0, valid.size() - 1),
                                    valid.substr(0, 30),
                                    std::string("\n"),
                                    "\n" + valid,
                                    valid + "\n",
                                    valid + "epoch=3\n",
                                    valid + "colour=red\n",
                                    valid + "no equals\n",
                                    valid + std::string(2000, 'x') + "\n",
                                    valid.substr(valid.find('\n') + 1),
                                    replaced(valid, "=1\n", "=2\n"),
                                    replaced(valid, "run_id=r\n", ""),
                                    replaced(valid, "run_id=r", "run_id=a/b"),
                                    replaced(valid, "run_id=r", "run_id="),
                                    replaced(valid, "00ff", "00fg"),
                                    replaced(valid, "00ff", "ff"),
                                    replaced(valid, "pid=7", "pid=-7"),
                                    replaced(valid, "pid=7", "pid=7 "),
                                    replaced(valid, "pid=7", "pid=4294967296"),
                                    replaced(valid, "epoch=3", "epoch="),
                                    replaced(valid, "epoch=3", "epoch=4294967296"),
                                    replaced(valid, "epoch=3\n", "epoch=3\r\n"),
                                    valid + "group=Masks\n",
                                    valid + "group=a\ngroup=a\n",
                                    valid + "groups=a,B\n",
                                    valid + "groups=a,,b\n",
                                    valid + "groups=a,\n",
                                    valid + "groups=../a\n",
                                    valid + "groups=a/b\n",
                                    valid + "groups=abcdefghijklmnopq\n",
                                    replaced(valid, "pid=7", std::string("pid=7\0", 6))})
        EXPECT_EQ(read_back(text), ErrorKind::Protocol) << text;
}

TEST(Endpoint, NamesAnotherVersion) {
    const TemporaryRunFolder folder;
    std::ofstream(folder.file("live/endpoint")) << "offramp-endpoint=9\nsomething=new\n";
    std::string text;
    EXPECT_EQ(kind_of([&] { Endpoint::read(folder.path()); }, &text), ErrorKind::Protocol);
    EXPECT_NE(text.find("version 9"), std::string::npos) << text;
}

TEST(Endpoint, RefusesLinksAndFifos) {
    const TemporaryRunFolder folder;
    ASSERT_EQ(::symlink("/etc/hostname", folder.file("live/endpoint").c_str()), 0);
    EXPECT_EQ(kind_of([&] { Endpoint::read(folder.path()); }), ErrorKind::System);
    ::unlink(folder.file("live/endpoint").c_str());
    ASSERT_EQ(::mkfifo(folder.file("live/endpoint").c_str(), 0600), 0);
    EXPECT_EQ(kind_of([&] { Endpoint::read(folder.path()); }), ErrorKind::Protocol);
}

TEST(Endpoint, ReportsAnUnwritablePlace) {
    const TemporaryRunFolder folder;
    std::string text;
    EXPECT_EQ(kind_of([&] { Endpoint{folder.file("none"), {"r", 1}, 1, 1}.publish(); }, &text), ErrorKind::CannotWrite);
    EXPECT_NE(text.find(folder.file("none")), std::string::npos) << text;
}

TEST(Endpoint, AcceptsRunDirectoriesWhoseSocketsHaveAnAddress) {
    const std::string longest = "/" + std::string(107 - 1 - 24, 'x');  // "/live/work-01234567.sock" has 24 bytes
    EXPECT_NO_THROW(Endpoint::check_run_dir(longest));
    EXPECT_NO_THROW(Endpoint::check_run_dir("/tmp/a run"));
    std::string text;
    EXPECT_EQ(kind_of([&] { Endpoint::check_run_dir(longest + "x"); }, &text), ErrorKind::Usage);
    EXPECT_NE(text.find("108"), std::string::npos) << text;
    for (const char* bad : {"", "relative", "./r", "@abstract", "/tmp/a\nb", "/tmp/\x7f"})
        EXPECT_EQ(kind_of([&] { Endpoint::check_run_dir(bad); }), ErrorKind::Usage) << bad;
}

RC_GTEST_PROP(Endpoint, IsReadBack, (std::uint64_t nonce, std::uint32_t epoch)) {
    const TemporaryRunFolder folder;
    const auto pid = *rc::gen::inRange<std::uint64_t>(1, 4194304);
    const auto id = *rc::gen::nonEmpty(rc::gen::container<std::string>(rc::gen::elementOf(std::string("azAZ09._-"))));
    const Endpoint written{folder.path(), {id.substr(0, 48), nonce}, pid, epoch};
    written.publish();
    const auto read = Endpoint::read(folder.path());
    RC_ASSERT(read.has_value());
    RC_ASSERT(read->names.run_id == written.names.run_id);
    RC_ASSERT(read->names.nonce == nonce);
    RC_ASSERT(read->producer_pid == pid);
    RC_ASSERT(read->epoch == epoch);
    RC_ASSERT(read->run_dir == folder.path());
}

// One byte of a valid file changed: read as a valid one, or refused.
RC_GTEST_PROP(Endpoint, SurvivesAnyChangedByte, ()) {
    const TemporaryRunFolder folder;
    std::string text = kValid;
    text[*rc::gen::inRange<std::size_t>(0, text.size())] = static_cast<char>(*rc::gen::inRange(0, 256));
    std::ofstream(folder.file("live/endpoint")) << text;
    const ErrorKind code = kind_of([&] { RC_ASSERT(Endpoint::read(folder.path()).has_value()); });
    RC_ASSERT(code == ErrorKind::None || code == ErrorKind::Protocol);
}

}  // namespace
}  // namespace offramp
