#include "common/shm/shared_region.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "common/base/error.hpp"
#include "tests/unit/shm/child_process.hpp"
#include "tests/unit/shm/own_objects.hpp"

namespace offramp {
namespace {

using support::ChildProcess;
using support::objects_of;
using support::own_run;
using support::smaps_field;
using Access = SharedRegionView::Access;

constexpr std::size_t kBytes = 1 << 20;

mode_t mode_of(const std::string& name) {
    struct stat found = {};
    return ::stat(("/dev/shm" + name).c_str(), &found) == 0 ? found.st_mode & 07777 : 0;
}

template <class Call>
ErrorKind kind_of(Call call, std::string* text = nullptr) {
    try {
        call();
    } catch (const Error& problem) {
        if (text) *text = problem.what();
        return problem.kind();
    }
    return ErrorKind::None;
}

TEST(SharedRegion, ShowsItsBytesToAView) {
    const auto names = own_run("view");
    const auto region = SharedRegion::create(names.ledger(), kBytes);
    ASSERT_EQ(region.bytes().size(), kBytes);
    EXPECT_EQ(region.name(), names.ledger());
    EXPECT_TRUE(
        std::all_of(region.bytes().begin(), region.bytes().end(), [](std::byte b) { return b == std::byte{0}; }));

    const auto view = SharedRegionView::attach(names.ledger(), Access::ReadOnly, kBytes);
    region.bytes()[kBytes - 1] = std::byte{42};
    EXPECT_EQ(view.bytes()[kBytes - 1], std::byte{42});

    const auto writer = SharedRegionView::attach(names.ledger(), Access::ReadWrite, kBytes);
    writer.writable_bytes()[0] = std::byte{7};
    EXPECT_EQ(region.bytes()[0], std::byte{7});
}

TEST(SharedRegion, LeavesNothingBehind) {
    const auto names = own_run("gone");
    {
        auto region = SharedRegion::create(names.span(0), kBytes);
        EXPECT_EQ(objects_of(names).size(), 1U);
        auto moved = std::move(region);
        EXPECT_EQ(objects_of(names).size(), 1U);
    }
    EXPECT_TRUE(objects_of(names).empty());
}

TEST(SharedRegion, KeepsItsNameWhenAsked) {
    const auto names = own_run("kept");
    { SharedRegion::create(names.span(0), kBytes).keep_name(); }
    EXPECT_EQ(objects_of(names).size(), 1U);
    EXPECT_NO_THROW(SharedRegionView::attach(names.span(0), Access::ReadOnly, kBytes));
    ::unlink(("/dev/shm" + names.span(0)).c_str());
}

TEST(SharedRegion, IsTakenOverUnchanged) {
    const auto names = own_run("adopt");
    auto made = SharedRegion::create(names.span(0), kBytes);
    made.bytes()[kBytes - 1] = std::byte{42};
    made.keep_name();  // as if its creator was killed
    {
        const auto adopted = SharedRegion::adopt(names.span(0), kBytes);
        EXPECT_EQ(adopted.bytes().size(), kBytes);
        EXPECT_EQ(adopted.bytes()[kBytes - 1], std::byte{42});
        adopted.bytes()[0] = std::byte{7};
    }
    EXPECT_EQ(objects_of(names).size(), 1U) << "a failed takeover keeps it for the next";
    EXPECT_EQ(made.bytes()[0], std::byte{7}) << "the same memory";
    std::string text;
    EXPECT_EQ(kind_of([&] { SharedRegion::adopt(names.span(0), 2 * kBytes); }, &text), ErrorKind::Protocol);
    EXPECT_NE(text.find(std::to_string(2 * kBytes)), std::string::npos) << text;
    EXPECT_EQ(kind_of([&] { SharedRegion::adopt(names.span(1), kBytes); }), ErrorKind::NoSuchRun);
    made.unlink();
}

TEST(SharedRegion, IsStillMappedAfterUnlink) {
    const auto names = own_run("unlinked");
    auto region = SharedRegion::create(names.span(0), kBytes);
    region.unlink();
    EXPECT_TRUE(objects_of(names).empty());
    region.bytes()[17] = std::byte{1};
    EXPECT_EQ(region.bytes()[17], std::byte{1});
    EXPECT_EQ(kind_of([&] { SharedRegionView::attach(names.span(0), Access::ReadOnly, 1); }), ErrorKind::NoSuchRun);
}

TEST(SharedRegion, KeepsANameThatAnotherObjectHasTaken) {
    const auto names = own_run("taken");
    {
        const auto region = SharedRegion::create(names.span(0), kBytes);
        const std::string path = "/dev/shm" + names.span(0);
        ASSERT_EQ(::unlink(path.c_str()), 0);
        std::ofstream(path) << "another";
    }
    EXPECT_EQ(objects_of(names).size(), 1U);
    ::unlink(("/dev/shm" + names.span(0)).c_str());
}

TEST(SharedRegion, IsCreatedByOneProcessOnly) {
    const auto names = own_run("exclusive");
    const auto region = SharedRegion::create(names.ledger(), kBytes);
    region.bytes()[0] = std::byte{9};
    try {
        SharedRegion::create(names.ledger(), kBytes);
        FAIL() << "a second object of the same name was created";
    } catch (const SystemError& problem) {
        EXPECT_EQ(problem.errno_value(), EEXIST);
        EXPECT_NE(std::string(problem.what()).find(names.ledger()), std::string::npos);
    }
    EXPECT_EQ(objects_of(names).size(), 1U);
    EXPECT_EQ(SharedRegionView::attach(names.ledger(), Access::ReadOnly, 1).bytes()[0], std::byte{9});
}

TEST(SharedRegion, HasItsModeWithAnyUmask) {
    const auto names = own_run("mode");
    const mode_t previous = ::umask(0077);
    const auto own = SharedRegion::create(names.ledger(), kBytes);
    const auto group = SharedRegion::create(names.span(0), kBytes, {.readable_by_group = true});
    const auto cells =
        SharedRegion::create(names.heartbeats(), kBytes, {.readable_by_group = true, .writable_by_group = true});
    ::umask(previous);
    EXPECT_EQ(mode_of(names.ledger()), 0600U);
    EXPECT_EQ(mode_of(names.span(0)), 0640U);
    EXPECT_EQ(mode_of(names.heartbeats()), 0660U);
}

TEST(SharedRegion, IsClosedToOtherUsers) {
    if (::geteuid() != 0) GTEST_SKIP() << "only root can become another user";
    const auto names = own_run("foreign");
    const auto region = SharedRegion::create(names.ledger(), kBytes);
    ChildProcess child([&](int) {
        if (::setgid(65534) != 0 || ::setuid(65534) != 0) return 1;
        return to_int(kind_of([&] { SharedRegionView::attach(names.ledger(), Access::ReadOnly, 1); }));
    });
    EXPECT_EQ(WEXITSTATUS(child.wait()), to_int(ErrorKind::NotPermitted));
}

TEST(SharedRegion, ReportsMissingRoomBeforeCreatingAnything) {
    const auto names = own_run("huge");
    const std::size_t wanted = shared_memory_room().free_bytes + (std::size_t{1} << 40);
    std::string text;
    EXPECT_EQ(kind_of([&] { SharedRegion::create(names.span(0), wanted); }, &text), ErrorKind::SharedMemoryFull);
    EXPECT_TRUE(objects_of(names).empty());
    EXPECT_NE(text.find(std::to_string(wanted)), std::string::npos) << text;
    EXPECT_NE(text.find("free "), std::string::npos) << text;
    EXPECT_NE(text.find("--shm-size"), std::string::npos) << text;
    EXPECT_NE(text.find("emptyDir"), std::string::npos) << text;
    EXPECT_EQ(kind_of([&] { require_shared_memory(wanted, "9 slabs"); }, &text), ErrorKind::SharedMemoryFull);
    EXPECT_NE(text.find("9 slabs"), std::string::npos) << text;
    EXPECT_NO_THROW(require_shared_memory(1, "one byte"));
}

TEST(SharedRegion, LeavesNothingWhenAReservationFails) {
    const auto names = own_run("limited");
    ChildProcess child([&](int) {
        std::signal(SIGXFSZ, SIG_IGN);
        const rlimit limit{kBytes / 2, kBytes / 2};  // the file may not grow to the size: fallocate fails with EFBIG
        if (::setrlimit(RLIMIT_FSIZE, &limit) != 0) return 1;
        try {
            SharedRegion::create(names.span(0), kBytes);
        } catch (const SystemError& problem) {
            const bool clear = problem.kind() == ErrorKind::CannotWrite &&
                               std::string(problem.what()).find("ulimit -f") != std::string::npos;
            return problem.errno_value() == EFBIG && clear ? 0 : 2;
        }
        return 3;
    });
    EXPECT_EQ(child.wait(), 0);
    EXPECT_TRUE(objects_of(names).empty());
}

TEST(SharedRegion, ReservesItsMappedMemory) {
    const auto names = own_run("reserved");
    const auto region = SharedRegion::create(names.span(0), 3 * kBytes);
    struct stat found = {};
    ASSERT_EQ(::stat(("/dev/shm" + names.span(0)).c_str(), &found), 0);
    EXPECT_EQ(static_cast<std::size_t>(found.st_size), 3 * kBytes);
    EXPECT_GE(static_cast<std::size_t>(found.st_blocks) * 512, 3 * kBytes);
}

TEST(SharedRegion, AllocatesOnPopulationIfAsked) {
    const auto names = own_run("later");
    auto region = SharedRegion::create(names.span(0), 3 * kBytes, {.reserve = RegionOptions::Reserve::WhenPopulated});
    region.populate(0, 3 * kBytes);
    struct stat found = {};
    ASSERT_EQ(::stat(("/dev/shm" + names.span(0)).c_str(), &found), 0);
    EXPECT_EQ(static_cast<std::size_t>(found.st_size), 3 * kBytes);
    EXPECT_GE(static_cast<std::size_t>(found.st_blocks) * 512, 3 * kBytes);
}

TEST(SharedRegion, IsExcludedFromCoreDumps) {
    const auto names = own_run("dump");
    const auto region = SharedRegion::create(names.span(0), kBytes);
    const auto view = SharedRegionView::attach(names.span(0), Access::ReadOnly, 1);
    EXPECT_NE(smaps_field(region.bytes().data(), "VmFlags").find(" dd "), std::string::npos);
    EXPECT_NE(smaps_field(view.bytes().data(), "VmFlags").find(" dd "), std::string::npos);
}

// The mount decides whether it gets them.
TEST(SharedRegion, AsksForHugePages) {
    if (!std::filesystem::exists("/sys/kernel/mm/transparent_hugepage")) GTEST_SKIP() << "this kernel has none";
    const auto names = own_run("huge");
    auto region = SharedRegion::create(names.span(0), kBytes, {.reserve = RegionOptions::Reserve::WhenPopulated});
    EXPECT_NE(smaps_field(region.bytes().data(), "VmFlags").find(" hg"), std::string::npos);
    region.populate(0, kBytes);
    region.keep_name();
    const auto adopted = SharedRegion::adopt(names.span(0), kBytes);
    EXPECT_NE(smaps_field(adopted.bytes().data(), "VmFlags").find(" hg"), std::string::npos);
    region.unlink();
}

TEST(SharedRegion, PopulatesPartsFromSeveralThreads) {
    const auto names = own_run("populate");
    constexpr std::size_t kParts = 4;
    auto region = SharedRegion::create(names.span(0), kParts * kBytes);
    region.bytes()[5] = std::byte{5};
    ASSERT_EQ(smaps_field(region.bytes().data(), "Rss").find(std::to_string(kParts * kBytes / 1024) + " kB"),
              std::string::npos);
    std::vector<std::jthread> threads;
    for (std::size_t part = 0; part < kParts; ++part)
        threads.emplace_back([&region, part] { region.populate(part * kBytes, kBytes); });
    threads.clear();
    EXPECT_NE(smaps_field(region.bytes().data(), "Rss").find(std::to_string(kParts * kBytes / 1024) + " kB"),
              std::string::npos);
    EXPECT_EQ(region.bytes()[5], std::byte{5});
}

TEST(SharedRegion, PopulatesAnOddSize) {
    const auto names = own_run("odd");
    auto region = SharedRegion::create(names.heartbeats(), 4097);
    EXPECT_NO_THROW(region.populate(4096, 1));
    EXPECT_NO_THROW(region.populate(1, 4096));
    EXPECT_NO_THROW(region.populate(4097, 0));
    EXPECT_DEATH(region.populate(4096, 2), "stays inside the region");
}

TEST(SharedRegionView, IsReadOnlyWhenAskedFor) {
    const auto names = own_run("readonly");
    const auto region = SharedRegion::create(names.span(0), kBytes);
    const auto view = SharedRegionView::attach(names.span(0), Access::ReadOnly, 1);
    EXPECT_DEATH(static_cast<void>(view.writable_bytes()), "read-only view");
    ChildProcess child([&](int) {
        const auto own_view = SharedRegionView::attach(names.span(0), Access::ReadOnly, 1);
        const_cast<std::byte&>(own_view.bytes()[0]) = std::byte{1};
        return 0;
    });
    const int status = child.wait();
    EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV) << status;
}

TEST(SharedRegionView, RefusesATooSmallObject) {
    const auto names = own_run("small");
    const auto region = SharedRegion::create(names.span(0), kBytes);
    std::string text;
    EXPECT_EQ(kind_of([&] { SharedRegionView::attach(names.span(0), Access::ReadOnly, kBytes + 1); }, &text),
              ErrorKind::Protocol);
    EXPECT_NE(text.find(std::to_string(kBytes)), std::string::npos) << text;
    EXPECT_NE(text.find(std::to_string(kBytes + 1)), std::string::npos) << text;
}

TEST(SharedRegionView, RefusesAnEmptyObject) {
    const auto names = own_run("empty");
    const std::string path = "/dev/shm" + names.span(0);
    std::ofstream(path).close();
    EXPECT_EQ(kind_of([&] { SharedRegionView::attach(names.span(0), Access::ReadOnly, 0); }), ErrorKind::Protocol);
    ::unlink(path.c_str());
}

TEST(SharedRegionView, NamesAMissingObject) {
    std::string text;
    EXPECT_EQ(kind_of([] { SharedRegionView::attach("/offramp-missing", Access::ReadOnly, 1); }, &text),
              ErrorKind::NoSuchRun);
    EXPECT_NE(text.find("/offramp-missing"), std::string::npos) << text;
}

TEST(SharedRegionView, CopiesOnWriteAndDropsTheCopy) {
    const auto names = own_run("copy");
    const auto region = SharedRegion::create(names.span(0), kBytes);
    region.bytes()[100] = std::byte{1};
    region.bytes()[5000] = std::byte{2};
    auto view = SharedRegionView::attach(names.span(0), Access::CopyOnWrite, kBytes);
    view.writable_bytes()[100] = std::byte{11};
    view.writable_bytes()[5000] = std::byte{12};
    EXPECT_EQ(region.bytes()[100], std::byte{1});
    EXPECT_EQ(region.bytes()[5000], std::byte{2});

    region.bytes()[100] = std::byte{3};
    region.bytes()[5000] = std::byte{4};
    EXPECT_EQ(view.bytes()[100], std::byte{11}) << "the private page hides the object's";
    view.drop_private_pages(0, 4096);
    EXPECT_EQ(view.bytes()[100], std::byte{3});
    EXPECT_EQ(view.bytes()[5000], std::byte{12}) << "outside the range";
    view.drop_private_pages(0, kBytes);
    EXPECT_EQ(view.bytes()[5000], std::byte{4});
    EXPECT_DEATH(view.drop_private_pages(1, 10), "page boundary");
    EXPECT_DEATH(view.drop_private_pages(4096, kBytes), "stays inside");
}

TEST(SharedRegions, AreNotInheritedByAForkedChild) {
    const auto names = own_run("fork");
    const auto created = SharedRegion::create(names.span(0), kBytes);
    const auto adopted = SharedRegion::adopt(names.span(0), kBytes);
    const auto view = SharedRegionView::attach(names.span(0), Access::ReadOnly, 1);
    const auto notes = SharedRegionView::attach(names.span(0), Access::ReadWrite, 1);
    const auto copy = SharedRegionView::attach(names.span(0), Access::CopyOnWrite, 1);
    const auto read = [](std::span<const std::byte> bytes) {
        return static_cast<int>(*static_cast<const volatile std::byte*>(bytes.data()));
    };
    const std::span<const std::byte> mappings[] = {created.bytes(), adopted.bytes(), view.bytes(), notes.bytes(),
                                                   copy.bytes()};
    for (const auto& bytes : mappings) {
        EXPECT_EQ(read(bytes), 0);
        ChildProcess reads([&](int) { return read(bytes); });
        const int status = reads.wait();
        EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV) << &bytes - mappings << ": " << status;
    }
    // The control: a child can read a mapping that is not hidden from it.
    const std::vector<std::byte> inherited(1);
    ChildProcess reads([&](int) { return read(inherited); });
    EXPECT_EQ(reads.wait(), 0);
}

// A process forks at any moment, even while a pool is created.
TEST(SharedRegions, AreNotInheritedDuringCreation) {
    const auto names = own_run("making");
    std::atomic<bool> over{false};
    std::thread makes([&] {
        for (std::uint32_t i = 0; !over; ++i) {
            const auto made = SharedRegion::create(names.span(i % 1000), kBytes);
            const auto view = SharedRegionView::attach(names.span(i % 1000), Access::ReadOnly, 1);
        }
    });
    for (int i = 0; i < 300; ++i) {
        ChildProcess child([](int) {
            for (int fd = 3; fd < 64; ++fd) {
                // Without memory from the heap: the other thread may have had the sanitizer's lock at the fork.
                char path[32], target[256];
                std::snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
                const auto length = ::readlink(path, target, sizeof target);
                if (length > 0 && std::string_view(target, length).starts_with("/dev/shm/")) return 1;
            }
            return 0;
        });
        EXPECT_EQ(child.wait(), 0);
    }
    over = true;
    makes.join();
}

}  // namespace
}  // namespace offramp
