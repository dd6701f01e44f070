#include "tests/support/faulty_consumer/crash_on_item.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <limits>
#include <set>
#include <stdexcept>
#include <utility>

#include "common/base/error.hpp"
#include "common/base/unique_fd.hpp"
#include "tests/support/faulty_consumer/test_setting.hpp"

namespace offramp::faulty {
namespace {

constexpr std::uint64_t kAnyItem = std::numeric_limits<std::uint64_t>::max();
constexpr std::uint64_t kEveryTime = std::numeric_limits<std::uint64_t>::max();

std::string choice(const char* variable, const std::string& otherwise, const std::set<std::string>& known) {
    const std::string value = text_setting(variable, otherwise);
    if (!known.contains(value)) throw ConfigError(std::string(variable) + " is '" + value + "', which is unknown");
    return value;
}

[[noreturn]] void die_of(int signal) {
    // A sanitizer's handler would turn the death into an exit.
    ::signal(signal, SIG_DFL);
    ::kill(::getpid(), signal);
    std::abort();
}

}  // namespace

CrashOnItem::CrashOnItem(std::unique_ptr<Processor> inner)
    : inner_(std::move(inner)),
      item_(required_setting("OFFRAMP_TEST_CRASH_ITEM") == "any" ? kAnyItem
                                                                 : number_setting("OFFRAMP_TEST_CRASH_ITEM", 0)),
      how_(choice("OFFRAMP_TEST_CRASH_HOW", "kill",
                  {"kill", "segv", "abort", "exit", "throw", "sink", "fail", "reject"})),
      when_(choice("OFFRAMP_TEST_CRASH_WHEN", "before", {"before", "after"})),
      times_(number_setting("OFFRAMP_TEST_CRASH_TIMES", kEveryTime)),
      count_file_(times_ == kEveryTime ? "" : required_setting("OFFRAMP_TEST_CRASH_FILE")) {}

void CrashOnItem::process(const SlabContents& slab, const Progress& progress, const StillCurrent& still_current) {
    const bool met = std::any_of(slab.samples.begin(), slab.samples.end(), [&](const SampleView& sample) {
        return item_ == kAnyItem || (sample.item == item_ && !sample.empty);
    });
    if (met && when_ == "before" && may_crash()) crash();
    inner_->process(slab, progress, still_current);
    if (met && when_ == "after" && may_crash()) crash();
}

// Each caller appends one byte. Appending is atomic, so each sees a size that includes its own byte.
bool CrashOnItem::may_crash() const {
    if (times_ == kEveryTime) return true;
    const UniqueFd file(::open(count_file_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
    struct stat status {};
    if (!file || ::write(file.get(), "x", 1) != 1 || ::fstat(file.get(), &status) != 0)
        throw SystemError("counting a death in " + count_file_, errno);
    return static_cast<std::uint64_t>(status.st_size) <= times_;
}

void CrashOnItem::crash() const {
    if (how_ == "kill") die_of(SIGKILL);
    if (how_ == "segv") die_of(SIGSEGV);
    if (how_ == "abort") die_of(SIGABRT);
    if (how_ == "exit") ::_exit(3);
    if (how_ == "fail") throw SlabFailed("Traceback of the test\nTheTestWantsThis: it failed");
    if (how_ == "reject") throw SlabFailed::rejected("no consumer can do this");
    if (how_ == "sink") throw Error(ErrorKind::SinkUnavailable, "the sink is away, as the test wants it");
    throw std::runtime_error("the test wants this exception");
}

}  // namespace offramp::faulty
