#include "common/shm/run_objects.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "common/base/error.hpp"
#include "common/shm/shared_region.hpp"
#include "tests/unit/shm/child_process.hpp"
#include "tests/unit/shm/own_objects.hpp"

namespace offramp {
namespace {

using support::ChildProcess;
using support::objects_of;
using support::own_run;
using ::testing::AnyOf;
using ::testing::Contains;
using ::testing::IsEmpty;
using ::testing::IsSupersetOf;
using ::testing::Not;
using ::testing::SizeIs;

constexpr std::chrono::milliseconds kAtOnce{0};
// Other programs that start on the machine look for dead runs, too, and briefly hold the turn of a run.
constexpr std::chrono::milliseconds kUntilTheyHaveLooked = std::chrono::minutes(1);

void make_object(const std::string& name) { SharedRegion::create(name, 4096).keep_name(); }

void remove_object(const std::string& name) { ::unlink(("/dev/shm" + name).c_str()); }

template <class Call>
ErrorKind kind_of(Call call) {
    try {
        call();
    } catch (const Error& problem) {
        return problem.kind();
    }
    return ErrorKind::None;
}

// A process that creates the objects of a run, holds its lock, reports that, and lives until it is killed.
class Holder {
  public:
    explicit Holder(const RunNames& names)
        : child_([names](int words) {
              const auto lock = RunLock::hold(names, true);
              make_object(names.ledger());
              make_object(names.heartbeats());
              make_object(names.span(0));
              make_object(names.span(11));
              ChildProcess::report(words);
              support::wait_to_be_killed();
              return 0;
          }) {
        EXPECT_TRUE(child_.reported());
    }
    void kill() {
        child_.kill();
        child_.wait();
    }

  private:
    ChildProcess child_;
};

TEST(RunNames, CarryRunIdAndNonce) {
    const RunNames names{"nightly-7", 0xc0ffee};
    EXPECT_EQ(names.lock(), "/offramp-nightly-7-0000000000c0ffee.lock");
    EXPECT_EQ(names.ledger(), "/offramp-nightly-7-0000000000c0ffee.ledger");
    EXPECT_EQ(names.heartbeats(), "/offramp-nightly-7-0000000000c0ffee.heartbeats");
    EXPECT_EQ(names.span(12), "/offramp-nightly-7-0000000000c0ffee.s12");
}

TEST(RunNames, OfAGroupHaveItsLedgerAndCellsAlone) {
    const RunNames run{"nightly-7", 0xc0ffee};
    const RunNames masks = run.of_group("masks-2");
    EXPECT_EQ(masks.ledger(), "/offramp-nightly-7-0000000000c0ffee.ledger-masks-2");
    EXPECT_EQ(masks.heartbeats(), "/offramp-nightly-7-0000000000c0ffee.heartbeats-masks-2");
    EXPECT_EQ(masks.lock(), run.lock());
    EXPECT_EQ(masks.span(3), run.span(3));
    EXPECT_EQ(masks.of_group("").ledger(), run.ledger());
}

TEST(RunNames, AcceptPlainGroupNamesOnly) {
    for (const char* good : {"a", "masks", "a-1-", "z9", "abcdefghijklmnop"})
        EXPECT_TRUE(RunNames::is_group_name(good)) << good;
    for (const char* bad :
         {"", "1a", "-a", "Masks", "mAsks", "a_b", "a.b", "a/b", "a,b", "a b", "a\n", "abcdefghijklmnopq"})
        EXPECT_FALSE(RunNames::is_group_name(bad)) << bad;
}

TEST(RunNames, AcceptPlainRunIdsOnly) {
    for (const std::string good : {"a", "run_1.2-x", "0123456789abcdef0123456789abcdef0123456789abcdef"})
        EXPECT_NO_THROW(RunNames::check_run_id(good)) << good;
    for (const std::string bad : {"", "a/b", "a b", "a\n", "ä", "0123456789abcdef0123456789abcdef0123456789abcdefX"})
        EXPECT_EQ(kind_of([&] { RunNames::check_run_id(bad); }), ErrorKind::Usage) << bad;
}

TEST(RunNames, ReadBackTheirNonce) {
    const RunNames names{"run", 0x00c0ffee};
    EXPECT_EQ(names.nonce_text(), "0000000000c0ffee");
    EXPECT_EQ(RunNames::nonce_in(names.nonce_text()), names.nonce);
    EXPECT_EQ(RunNames::nonce_in("ffffffffffffffff"), ~std::uint64_t{0});
    for (const char* text :
         {"", "c0ffee", "0000000000c0ffeg", "00000000000c0ffee", "-000000000c0ffee", " 000000000c0ffee"})
        EXPECT_EQ(RunNames::nonce_in(text), std::nullopt) << text;
}

TEST(RunNames, HaveUniqueNonces) { EXPECT_NE(RunNames::random_nonce(), RunNames::random_nonce()); }

TEST(RunLock, IsHeldByMany) {
    const auto names = own_run("many");
    {
        const auto producer = RunLock::hold(names, true);
        const auto consumer = RunLock::hold(names, false);
        const auto another = RunLock::hold(names, false);
        EXPECT_FALSE(sweep_run(names));
        EXPECT_THAT(objects_of(names), SizeIs(1));
    }
    EXPECT_TRUE(sweep_run(names));
    EXPECT_THAT(objects_of(names), IsEmpty());
}

TEST(RunLock, IsCreatedOnce) {
    const auto names = own_run("once");
    const auto lock = RunLock::hold(names, true);
    EXPECT_EQ(kind_of([&] { RunLock::hold(names, true); }), ErrorKind::RunInUse);
}

TEST(RunLock, ReportsThatThereIsNoSuchRun) {
    EXPECT_EQ(kind_of([] { RunLock::hold(own_run("none"), false); }), ErrorKind::NoSuchRun);
    EXPECT_EQ(kind_of([] { RunLock::hold({"a/b", 1}, false); }), ErrorKind::Usage);
}

TEST(RunLock, DoesNotJoinARunThatIsBeingSwept) {
    const auto names = own_run("swept");
    auto sweeper = RunLockFile::create(names, 0600);
    ASSERT_TRUE(sweeper && sweeper->try_lock_exclusive());
    EXPECT_EQ(kind_of([&] { RunLock::hold(names, false); }), ErrorKind::NoSuchRun);
    sweeper.reset();
    EXPECT_TRUE(sweep_run(names));
}

TEST(RunLock, FollowsNoLink) {
    const auto names = own_run("link");
    ASSERT_EQ(::symlink("/etc/passwd", ("/dev/shm" + names.lock()).c_str()), 0);
    EXPECT_EQ(kind_of([&] { RunLock::hold(names, false); }), ErrorKind::System);
    EXPECT_EQ(kind_of([&] { RunLock::hold(names, true); }), ErrorKind::RunInUse);
    EXPECT_FALSE(sweep_run(names));
    EXPECT_THAT(objects_of(names), SizeIs(1));
    remove_object(names.lock());
}

TEST(RunLock, HasItsModeWithAnyUmask) {
    for (const bool for_group : {false, true}) {
        const auto names = own_run("mode");
        const mode_t previous = ::umask(0077);
        const auto lock = RunLock::hold(names, true, for_group);
        ::umask(previous);
        struct stat found = {};
        ASSERT_EQ(::stat(("/dev/shm" + names.lock()).c_str(), &found), 0);
        EXPECT_EQ(found.st_mode & 07777, for_group ? 0640U : 0600U);
        remove_object(names.lock());
    }
}

TEST(RunLock, HoldsAnotherUsersLockOnlyWithGroupAccess) {
    if (::geteuid() != 0) GTEST_SKIP() << "only root can create another user's lock";
    const auto names = own_run("other");
    const auto lock = RunLock::hold(names, true);
    const std::string path = "/dev/shm" + names.lock();
    ASSERT_EQ(::chown(path.c_str(), 65534, 0), 0);
    EXPECT_EQ(kind_of([&] { RunLock::hold(names, false); }), ErrorKind::NotPermitted);
    ASSERT_EQ(::chmod(path.c_str(), 0640), 0);
    EXPECT_EQ(kind_of([&] { RunLock::hold(names, false); }), ErrorKind::None);
    ASSERT_EQ(::chmod(path.c_str(), 0644), 0);
    EXPECT_EQ(kind_of([&] { RunLock::hold(names, false); }), ErrorKind::NotPermitted);
    remove_object(names.lock());
}

// Each step of the races between creating, joining and sweeping, by hand.
TEST(RunLockFile, DetectsThatItsNameIsAnotherFile) {
    const auto names = own_run("swap");
    auto first = RunLockFile::create(names, 0600);
    ASSERT_TRUE(first);
    auto opened = RunLockFile::open(names);
    ASSERT_TRUE(opened && opened->try_lock_shared());
    EXPECT_TRUE(opened->still_named());

    remove_object(names.lock());
    EXPECT_FALSE(opened->still_named());
    auto second = RunLockFile::create(names, 0600);
    ASSERT_TRUE(second);
    EXPECT_FALSE(opened->still_named());
    EXPECT_TRUE(second->still_named());
    EXPECT_TRUE(second->try_lock_exclusive()) << "the first file's lock does not lock the second";
    remove_object(names.lock());
}

TEST(RunLockFile, LocksAsRequested) {
    const auto names = own_run("lock");
    auto made = RunLockFile::create(names, 0600);
    auto opened = RunLockFile::open(names);
    ASSERT_TRUE(made && opened);
    EXPECT_FALSE(RunLockFile::create(names, 0600));
    EXPECT_TRUE(made->try_lock_shared());
    EXPECT_TRUE(opened->try_lock_shared());
    EXPECT_FALSE(opened->try_lock_exclusive());
    made.reset();
    EXPECT_TRUE(opened->try_lock_exclusive());
    remove_object(names.lock());
}

TEST(Sweep, SparesALiveRunAndRemovesADeadOne) {
    const auto names = own_run("holder");
    Holder holder(names);
    EXPECT_THAT(sweep_dead_runs(), Not(Contains(names.ledger())));
    EXPECT_FALSE(sweep_run(names));
    EXPECT_THAT(objects_of(names), SizeIs(5));

    holder.kill();
    const auto removed = sweep_dead_runs();
    // Another program that starts now may sweep the same run first, or at the same time.
    const std::vector<std::string> all = {names.lock(), names.ledger(), names.heartbeats(), names.span(0),
                                          names.span(11)};
    EXPECT_THAT(removed, AnyOf(IsSupersetOf(all), Not(Contains(names.lock()))));
    while (!sweep_run(names)) std::this_thread::yield();
    EXPECT_THAT(objects_of(names), IsEmpty());
    EXPECT_TRUE(sweep_run(names)) << "a swept run leaves nothing";
}

// The number of this process's open writable files with the run's lock name.
int open_to_sweep(const RunNames& names) {
    int found = 0;
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
        std::error_code gone;
        if (std::filesystem::read_symlink(entry.path(), gone) != "/dev/shm" + names.lock()) continue;
        const int flags = ::fcntl(std::stoi(entry.path().filename()), F_GETFL);
        found += flags >= 0 && (flags & O_ACCMODE) == O_RDWR ? 1 : 0;
    }
    return found;
}

// Another program starts to sweep the run when its last process leaves, and is killed in the sweep: the leaving process
// must not give up because of the other's lock.
TEST(Sweep, TheLastToLeaveFinishesAnInterruptedSweep) {
    const auto names = own_run("turn");
    std::optional<RunLock> lock = RunLock::hold(names, true);
    make_object(names.ledger());
    make_object(names.span(0));
    auto other = RunLockFile::open_to_sweep(names);
    ASSERT_TRUE(other && other->take_turn(kUntilTheyHaveLooked));
    lock.reset();
    ASSERT_TRUE(other->try_lock_exclusive());
    EXPECT_THAT(sweep_dead_runs(), Not(Contains(names.ledger()))) << "a start does not wait for another's sweep";
    EXPECT_FALSE(sweep_run(names, kAtOnce));
    EXPECT_THAT(objects_of(names), SizeIs(3));

    std::atomic<bool> left = false;
    bool clean = false;
    std::thread leaver([&] {
        clean = sweep_run(names, std::chrono::minutes(2));
        left = true;
    });
    while (!left && open_to_sweep(names) < 2) std::this_thread::yield();
    EXPECT_FALSE(left) << "it left during another's sweep";
    other.reset();
    leaver.join();
    EXPECT_TRUE(clean);
    EXPECT_THAT(objects_of(names), IsEmpty());
}

TEST(Sweep, DoesNotWaitForALiveRun) {
    const auto names = own_run("life");
    const auto lock = RunLock::hold(names, true);
    auto sweep = RunLockFile::open_to_sweep(names);
    auto another = RunLockFile::open_to_sweep(names);
    ASSERT_TRUE(sweep && another);
    EXPECT_TRUE(sweep->take_turn(kUntilTheyHaveLooked)) << "a living process takes no turn";
    EXPECT_FALSE(sweep->try_lock_exclusive());
    EXPECT_FALSE(another->take_turn(kAtOnce)) << "one sweep at a time";
    sweep.reset();
    EXPECT_TRUE(another->take_turn(kUntilTheyHaveLooked));
    remove_object(names.lock());
}

TEST(Sweep, SparesARunWithALivingConsumer) {
    const auto names = own_run("consumer");
    Holder producer(names);
    const auto consumer = RunLock::hold(names, false);
    producer.kill();
    EXPECT_FALSE(sweep_run(names));
    EXPECT_THAT(objects_of(names), SizeIs(5));
    EXPECT_THAT(sweep_dead_runs(), Not(Contains(names.lock())));
    EXPECT_NO_THROW(RunLock::hold(names, false));
    remove_object(names.lock());
    for (const auto& name : {names.ledger(), names.heartbeats(), names.span(0), names.span(11)}) remove_object(name);
}

TEST(Sweep, RemovesOneRunAndKeepsTheOther) {
    const auto dead = own_run("two");
    RunNames live = dead;
    live.nonce = RunNames::random_nonce();
    Holder first(dead);
    Holder second(live);
    first.kill();
    EXPECT_TRUE(sweep_run(dead));
    EXPECT_THAT(objects_of(dead), IsEmpty());
    EXPECT_THAT(objects_of(live), SizeIs(5));
    second.kill();
    EXPECT_TRUE(sweep_run(live));
}

// A run id may be a prefix of another run's names.
TEST(Sweep, DistinguishesRunsWithACommonPrefix) {
    const auto dead = own_run("prefix");
    const std::string object = dead.span(0).substr(std::string("/offramp-").size());
    const RunNames live{object, RunNames::random_nonce()};
    ASSERT_TRUE(live.ledger().starts_with(dead.span(0)));
    ASSERT_NO_THROW(RunNames::check_run_id(live.run_id));
    Holder first(dead);
    Holder second(live);
    first.kill();
    EXPECT_TRUE(sweep_run(dead));
    EXPECT_THAT(objects_of(live), SizeIs(5));
    second.kill();
    EXPECT_TRUE(sweep_run(live));
}

TEST(Sweep, RemovesTheObjectsOfEveryGroup) {
    const auto names = own_run("groups");
    {
        const auto lock = RunLock::hold(names, true);
        for (const char* group : {"masks", "v-2"}) {
            make_object(names.of_group(group).ledger());
            make_object(names.of_group(group).heartbeats());
        }
        make_object(names.span(0));
        EXPECT_FALSE(sweep_run(names));
        EXPECT_THAT(objects_of(names), SizeIs(6));
    }
    EXPECT_TRUE(sweep_run(names));
    EXPECT_THAT(objects_of(names), IsEmpty());
}

TEST(Sweep, NeverTouchesAnotherUsersObjects) {
    if (::geteuid() != 0) GTEST_SKIP() << "only root can create another user's objects";
    const auto names = own_run("user");
    {
        const auto lock = RunLock::hold(names, true);
        make_object(names.ledger());
        make_object(names.span(0));
        ASSERT_EQ(::chown(("/dev/shm" + names.span(0)).c_str(), 65534, 65534), 0);
        ASSERT_EQ(::chown(("/dev/shm" + names.lock()).c_str(), 65534, 65534), 0);
    }
    EXPECT_FALSE(sweep_run(names));
    EXPECT_THAT(objects_of(names), SizeIs(3)) << "the lock is another user's";

    ASSERT_EQ(::chown(("/dev/shm" + names.lock()).c_str(), 0, 0), 0);
    EXPECT_FALSE(sweep_run(names)) << "an object is left";
    EXPECT_THAT(objects_of(names), SizeIs(1)) << "one object is another user's";
    remove_object(names.span(0));
}

// A process that has an object open or mapped, even for reading, holds no visible lock: only the kernel knows.
TEST(Sweep, SparesARunWithoutALockWhileItIsUsed) {
    const auto names = own_run("lost");
    for (const bool mapped : {true, false}) {
        ChildProcess child([&](int words) {
            make_object(names.ledger());
            make_object(names.span(0));
            UniqueFd opened(::open(("/dev/shm" + names.span(0)).c_str(), O_RDONLY | O_CLOEXEC));
            void* const memory = mapped ? ::mmap(nullptr, 4096, PROT_READ, MAP_SHARED, opened.get(), 0) : MAP_FAILED;
            if (mapped && memory != MAP_FAILED) opened.reset();
            ChildProcess::report(words);
            support::wait_to_be_killed();
            return 0;
        });
        ASSERT_TRUE(child.reported());
        EXPECT_FALSE(sweep_run(names));
        EXPECT_THAT(sweep_dead_runs(), Not(AnyOf(Contains(names.ledger()), Contains(names.span(0)))));
        EXPECT_THAT(objects_of(names), SizeIs(2)) << "both are in use";
        child.kill();
        child.wait();
        // Another program may be sweeping it.
        sweep_dead_runs();
        EXPECT_THAT(objects_of(names), IsEmpty());
    }
}

TEST(Sweep, KeepsForeignNames) {
    const auto names = own_run("unlike");
    const std::string base = names.lock().substr(0, names.lock().size() - 4);
    { const auto lock = RunLock::hold(names, true); }
    const std::vector<std::string> foreign{"sx",      "s",        "s1x",     "lock2",   "other", "s00000000001",
                                           "ledger-", "ledger-A", "ledgera", "cells-1", "lock-a"};
    for (const std::string& suffix : foreign) make_object(base + suffix);
    EXPECT_TRUE(sweep_run(names));
    EXPECT_THAT(objects_of(names), SizeIs(foreign.size()));
    for (const std::string& suffix : foreign) remove_object(base + suffix);
}

// For any id and nonce, a run's names are found again and recognised.
RC_GTEST_PROP(Sweep, FindsTheObjectsOfAnyRun, ()) {
    const std::string bytes = "abcXYZ0189._-";
    const auto id = *rc::gen::resize(48, rc::gen::nonEmpty(rc::gen::container<std::string>(rc::gen::elementOf(bytes))));
    const RunNames names{id.substr(0, 48), *rc::gen::arbitrary<std::uint64_t>() ^ RunNames::random_nonce()};
    const auto index = *rc::gen::arbitrary<std::uint32_t>();
    {
        const auto lock = RunLock::hold(names, true);
        make_object(names.span(index));
        RC_ASSERT(!sweep_run(names));
        RC_ASSERT(objects_of(names).size() == 2U);
    }
    RC_ASSERT(sweep_run(names));
    RC_ASSERT(objects_of(names).empty());
}

}  // namespace
}  // namespace offramp
