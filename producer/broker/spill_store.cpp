#include "producer/broker/spill_store.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <filesystem>
#include <string_view>
#include <utility>

#include "common/base/error.hpp"
#include "common/base/failpoint.hpp"
#include "common/base/files.hpp"
#include "common/base/remedy.hpp"
#include "common/base/scarcity.hpp"
#include "common/base/trace.hpp"
#include "common/base/unique_fd.hpp"

namespace offramp {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostAtOnce = std::size_t{64} << 20;
constexpr std::string_view kPrefix = "slab-";
constexpr std::string_view kLostPrefix = "lost-";
constexpr std::string_view kSuffix = ".spill";

SystemError broken(const std::string& tried, int problem) {
    return SystemError(tried, problem,
                       way_to_write(problem, "Make room there") + ", or " + remedy(Remedy::AnotherSpillFolder),
                       ErrorKind::CannotWrite);
}

void write_file(const std::string& path, std::span<const std::byte> bytes) {
    WholeFile file(path, 0600, [&](int problem) {
        return broken("writing " + path + ", " + std::to_string(bytes.size()) + " bytes", problem);
    });
    file.write(bytes);
    failpoint("spill.written");
    file.put_in_place();
}

void read_file(const std::string& path, const UniqueFd& file, int problem, std::span<std::byte> bytes) {
    const std::string tried = "reading " + path + " back, " + std::to_string(bytes.size()) + " bytes";
    if (!file) throw SystemError(tried, problem, "Another process removed it. " + remedy(Remedy::RunAgain));
    while (!bytes.empty()) {
        const ssize_t got = ::read(file.get(), bytes.data(), std::min(bytes.size(), kMostAtOnce));
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) throw SystemError(tried, errno, remedy(Remedy::RunAgain));
        if (got == 0)
            throw SystemError(tried + ": it ends too soon", EIO,
                              "Another process truncated it. " + remedy(Remedy::RunAgain));
        bytes = bytes.subspan(static_cast<std::size_t>(got));
    }
}

template <class Number>
bool take_number(std::string_view& text, Number& number) {
    const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (problem != std::errc{}) return false;
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    return true;
}

// slab-S-G.spill or lost-S-G.spill
std::optional<SpilledFile> parse_name(const fs::path& path) {
    SpilledFile file{.path = path.string()};
    const std::string name = path.filename().string();
    std::string_view text = name;
    file.lost = text.starts_with(kLostPrefix);
    if (!file.lost && !text.starts_with(kPrefix)) return std::nullopt;
    text.remove_prefix(kPrefix.size());
    if (!take_number(text, file.slab) || !text.starts_with('-')) return std::nullopt;
    text.remove_prefix(1);
    if (!take_number(text, file.generation) || text != kSuffix) return std::nullopt;
    return file;
}

}  // namespace

SpillStore::SpillStore(std::string folder, std::function<void()> on_outcome)
    : folder_(std::move(folder)), on_outcome_(std::move(on_outcome)) {
    std::error_code problem;
    fs::create_directories(folder_, problem);
    if (problem || ::chmod(folder_.c_str(), 0700) != 0)
        throw broken("making the folder " + folder_, problem ? problem.value() : errno);
    thread_ = std::thread([this] { work(); });
}

SpillStore::~SpillStore() {
    {
        const std::lock_guard lock(mutex_);
        stopping_ = true;
    }
    changed_.notify_all();
    thread_.join();
}

void SpillStore::write(std::uint32_t slab, std::uint64_t generation, std::span<const std::byte> bytes) {
    SpilledFile file{.slab = slab, .generation = generation};
    file.path = folder_ + "/" + std::string(kPrefix) + std::to_string(slab) + "-" + std::to_string(generation) +
                std::string(kSuffix);
    start({.outcome = {Outcome::Job::Wrote, slab, std::move(file), {}}, .from = bytes});
}

void SpillStore::read(const SpilledFile& file, std::uint32_t slab, std::span<std::byte> bytes) {
    UniqueFd source(::open(file.path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
    const int problem = source ? 0 : errno;
    start({.outcome = {Outcome::Job::Read, slab, file, {}},
           .to = bytes,
           .source = std::move(source),
           .problem = problem});
}

void SpillStore::start(Job job) {
    expect(!std::exchange(busy_, true), "one file is written or read at a time");
    {
        const std::lock_guard lock(mutex_);
        job_ = std::move(job);
    }
    changed_.notify_all();
}

std::optional<SpillStore::Outcome> SpillStore::take_outcome() {
    if (!busy_) return std::nullopt;
    const std::lock_guard lock(mutex_);
    auto outcome = std::exchange(outcome_, std::nullopt);
    busy_ = !outcome;
    return outcome;
}

void SpillStore::work() {
    name_this_thread("spill");
    std::unique_lock lock(mutex_);
    while (true) {
        changed_.wait(lock, [this] { return stopping_ || job_; });
        if (stopping_) return;
        Job job = std::move(*std::exchange(job_, std::nullopt));
        lock.unlock();
        try {
            if (job.outcome.job == Outcome::Job::Wrote)
                write_file(job.outcome.file.path, job.from);
            else
                read_file(job.outcome.file.path, job.source, job.problem, job.to);
        } catch (const std::exception& problem) {
            job.outcome.error = problem.what();
        }
        lock.lock();
        outcome_ = std::move(job.outcome);
        lock.unlock();
        on_outcome_();
        lock.lock();
    }
}

std::vector<SpilledFile> SpillStore::left_there() const {
    std::vector<SpilledFile> files;
    std::error_code problem;
    for (fs::directory_iterator entry(folder_, problem); !problem && entry != fs::directory_iterator();
         entry.increment(problem)) {
        if (auto file = parse_name(entry->path()))
            files.push_back(std::move(*file));
        else if (entry->path().extension() == ".new")
            ::unlink(entry->path().c_str());
    }
    if (problem) throw SystemError("looking for spilled slabs in " + folder_, problem.value());
    return files;
}

void SpillStore::remove(const SpilledFile& file) noexcept { ::unlink(file.path.c_str()); }

void SpillStore::mark_lost(SpilledFile& file) {
    const fs::path before(file.path);
    const std::string name = std::string(kLostPrefix) + before.filename().string().substr(kPrefix.size());
    const std::string after = (before.parent_path() / name).string();
    failpoint("spill.lost");
    if (::rename(file.path.c_str(), after.c_str()) != 0)
        throw SystemError("renaming " + file.path + " to " + name, errno, remedy(Remedy::AnotherSpillFolder),
                          ErrorKind::CannotWrite);
    file.path = after;
    file.lost = true;
}

void SpillStore::remove_folder(const std::string& folder) noexcept {
    std::error_code ignored;
    fs::remove_all(folder, ignored);
}

}  // namespace offramp
