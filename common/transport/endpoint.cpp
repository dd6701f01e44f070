#include "common/transport/endpoint.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <filesystem>
#include <limits>
#include <map>
#include <ranges>
#include <string_view>

#include "common/base/error.hpp"
#include "common/base/files.hpp"
#include "common/base/log.hpp"
#include "common/base/remedy.hpp"
#include "common/base/scarcity.hpp"
#include "common/shm/run_files.hpp"

namespace offramp {
namespace {

// The file, version 1. The first line is the version. Each key occurs once, in any order; other keys are invalid.
// Only a run with groups has the last two: `groups` in the run's own file, `group` in each group's.
//   offramp-endpoint=1
//   run_id=nightly-7
//   nonce=00c0ffee00c0ffee        16 hexadecimal digits
//   producer_pid=4711
//   epoch=1
//   groups=masks,vectors
//   group=masks
constexpr std::string_view kVersionLine = "offramp-endpoint=1";
constexpr std::string_view kVersionKey = "offramp-endpoint=";
constexpr std::size_t kMaxFileBytes = 1024;
constexpr std::string_view kSocketsBegin[] = {"work-", "free-"};
constexpr std::string_view kSocketsEnd = ".sock";
constexpr std::string_view kSocketOfAnyRun = "/live/work-01234567.sock";
constexpr const char* kOneProducer =
    "A run directory has one producer: stop the other, or give this run another directory";

std::string live_folder(const std::string& run_dir) { return run_dir + "/" + run_files::kLive; }

// Short, because the user's directory takes most of a socket's path.
std::string socket_name(std::string_view begin, const Endpoint& endpoint) {
    const auto of_run_and_epoch = static_cast<std::uint32_t>(endpoint.names.nonce + endpoint.epoch);
    return fmt::format("{}{:08x}{}", begin, of_run_and_epoch, kSocketsEnd);
}

class EndpointText {
  public:
    EndpointText(std::string file, std::string_view text) : file_(std::move(file)) {
        if (text.size() > kMaxFileBytes) fail("is longer than " + std::to_string(kMaxFileBytes) + " bytes");
        if (text.empty() || text.back() != '\n') fail("does not end with a line break");
        bool first = true;
        while (!text.empty()) {
            const auto end = text.find('\n');
            take(text.substr(0, end), first);
            text.remove_prefix(end + 1);
            first = false;
        }
    }

    std::string text_of(const std::string& key) {
        const auto found = values_.find(key);
        if (found == values_.end()) fail("lacks the line '" + key + "='");
        std::string value = found->second;
        values_.erase(found);
        return value;
    }
    std::string text_if_any(const std::string& key) { return values_.contains(key) ? text_of(key) : std::string(); }
    std::uint64_t number_of(const std::string& key, std::uint64_t most) {
        const std::string text = text_of(key);
        std::uint64_t value = 0;
        const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
        if (problem != std::errc{} || end != text.data() + text.size() || value > most) fail_number(key, text);
        return value;
    }
    std::uint64_t nonce() {
        const std::string text = text_of("nonce");
        const auto value = RunNames::nonce_in(text);
        if (!value) fail_number("nonce", text);
        return *value;
    }
    void expect_nothing_else() const {
        if (!values_.empty()) fail("has the unknown line '" + values_.begin()->first + "='");
    }
    [[noreturn]] void fail(const std::string& what) const {
        throw ProtocolError("the run's endpoint " + file_ + " " + what,
                            "It was not written by a producer of this version: start the run again");
    }

  private:
    [[noreturn]] void fail_number(const std::string& key, const std::string& text) const {
        fail("has '" + text + "' for " + key + ", which is not a number in range");
    }
    void take(std::string_view line, bool first) {
        if (first) {
            if (line == kVersionLine) return;
            fail(line.starts_with(kVersionKey) ? "is of version " + std::string(line.substr(kVersionKey.size())) +
                                                     ", this program reads version 1"
                                               : "does not begin with '" + std::string(kVersionLine) + "'");
        }
        const auto equals = line.find('=');
        if (equals == std::string_view::npos) fail("has the line '" + std::string(line) + "' without a '='");
        const std::string key(line.substr(0, equals));
        if (!values_.emplace(key, line.substr(equals + 1)).second) fail("has the line '" + key + "=' twice");
    }

    std::string file_;
    std::map<std::string, std::string> values_;
};

// Reads at most one byte more than a valid file has.
std::string read_all(int fd, const std::string& file) {
    std::string text(kMaxFileBytes + 1, '\0');
    std::size_t used = 0;
    while (used < text.size()) {
        const ssize_t got = ::read(fd, text.data() + used, text.size() - used);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) throw SystemError("reading the run's endpoint " + file, errno);
        if (got == 0) break;
        used += static_cast<std::size_t>(got);
    }
    text.resize(used);
    return text;
}

}  // namespace

std::string Endpoint::work_address() const {
    return "ipc://" + live_folder(run_dir) + "/" + socket_name(kSocketsBegin[0], *this);
}
std::string Endpoint::free_list_address() const {
    return "ipc://" + live_folder(run_dir) + "/" + socket_name(kSocketsBegin[1], *this);
}
std::string Endpoint::file() const { return run_dir + "/" + run_files::kEndpoint; }

std::string Endpoint::group_dir(const std::string& run_dir, const std::string& group) {
    return run_dir + "/" + run_files::kGroups + "/" + group;
}

Endpoint Endpoint::of_group(const std::string& group) const {
    return {.run_dir = group_dir(run_dir, group),
            .names = names.of_group(group),
            .producer_pid = producer_pid,
            .epoch = epoch};
}

void Endpoint::require_no_groups() const {
    if (!groups.empty())
        throw ConfigError(
            fmt::format("the run in {} has groups of consumers ({})", run_dir, fmt::join(groups, ", ")),
            "Join one of them, in " + group_dir(run_dir, groups.front()) + " for '" + groups.front() + "'");
}

void Endpoint::require_group(const std::string& group) const {
    if (std::ranges::find(groups, group) == groups.end())
        throw ConfigError("the run in " + run_dir + " has no group '" + group + "'",
                          groups.empty() ? "Join it without a group"
                                         : fmt::format("Join one of its groups: {}", fmt::join(groups, ", ")));
}

void Endpoint::publish() const {
    RunNames::check_run_id(names.run_id);
    check_run_dir(run_dir);
    const std::string text = std::string(kVersionLine) + "\nrun_id=" + names.run_id + "\nnonce=" + names.nonce_text() +
                             "\nproducer_pid=" + std::to_string(producer_pid) + "\nepoch=" + std::to_string(epoch) +
                             "\n" + (groups.empty() ? "" : fmt::format("groups={}\n", fmt::join(groups, ","))) +
                             (names.group.empty() ? "" : "group=" + names.group + "\n");
    WholeFile whole(file(), 0644, [this](int problem) {
        return SystemError("writing the run's endpoint " + file(), problem,
                           way_to_write(problem, "The run directory must exist and be writable"),
                           ErrorKind::CannotWrite);
    });
    whole.set_mode(0644);  // the run directory's mode decides who may read it
    whole.write(text);
    whole.put_in_place();
}

std::optional<Endpoint> Endpoint::read(const std::string& run_dir) {
    check_run_dir(run_dir);
    Endpoint endpoint;
    endpoint.run_dir = run_dir;
    const std::string file = endpoint.file();
    const UniqueFd fd(::open(file.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK));
    if (!fd) {
        if (errno == ENOENT) return std::nullopt;
        throw SystemError("opening the run's endpoint " + file, errno,
                          errno == EACCES ? "It belongs to another user. " + remedy(Remedy::OpenToAnotherUser) : "",
                          errno == EACCES ? ErrorKind::NotPermitted : ErrorKind::System);
    }
    EndpointText text(file, read_all(fd.get(), file));
    endpoint.names.run_id = text.text_of("run_id");
    endpoint.names.nonce = text.nonce();
    endpoint.producer_pid = text.number_of("producer_pid", std::numeric_limits<pid_t>::max());
    endpoint.epoch = static_cast<std::uint32_t>(text.number_of("epoch", std::numeric_limits<std::uint32_t>::max()));
    const std::string groups = text.text_if_any("groups");
    for (const auto group : std::views::split(groups, ',')) endpoint.groups.emplace_back(group.begin(), group.end());
    endpoint.names.group = text.text_if_any("group");
    std::vector<std::string> names = endpoint.groups;
    if (!endpoint.names.group.empty()) names.push_back(endpoint.names.group);
    for (const std::string& name : names)
        if (!RunNames::is_group_name(name)) text.fail("has the invalid group name '" + name + "'");
    text.expect_nothing_else();
    try {
        RunNames::check_run_id(endpoint.names.run_id);
    } catch (const ConfigError& problem) {
        text.fail(std::string("is refused: ") + problem.what());
    }
    return endpoint;
}

void Endpoint::remove_previous_sockets() const {
    std::error_code problem;
    for (const auto& entry : std::filesystem::directory_iterator(live_folder(run_dir), problem)) {
        const std::string name = entry.path().filename().string();
        const bool ours =
            std::ranges::any_of(kSocketsBegin, [&](auto begin) { return name == socket_name(begin, *this); });
        const bool is_socket_name =
            std::ranges::any_of(kSocketsBegin, [&](auto begin) { return name.starts_with(begin); });
        struct stat found {};
        if (!ours && is_socket_name && name.ends_with(kSocketsEnd) && ::lstat(entry.path().c_str(), &found) == 0 &&
            S_ISSOCK(found.st_mode))
            ::unlink(entry.path().c_str());
    }
}

void Endpoint::check_run_dir(const std::string& run_dir) {
    constexpr std::size_t kMostBytes = sizeof(sockaddr_un::sun_path) - 1;
    if (run_dir.empty() || run_dir[0] != '/')
        throw ConfigError("run directory '" + run_dir + "' is not an absolute path", "Give a path that begins with /");
    if (std::any_of(run_dir.begin(), run_dir.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; }))
        throw ConfigError("run directory '" + run_dir + "' holds a control character", "Choose another");
    const std::size_t path_bytes = run_dir.size() + kSocketOfAnyRun.size();
    if (path_bytes > kMostBytes)
        throw ConfigError("run directory '" + run_dir + "' makes socket paths of " + std::to_string(path_bytes) +
                              " bytes, a socket address holds " + std::to_string(kMostBytes),
                          "Choose a shorter one, such as one under /tmp or $XDG_RUNTIME_DIR");
}

ServingLock::ServingLock(const std::string& run_dir)
    : fd_(UniqueFd(::open(run_dir.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC))) {
    if (!fd_) throw SystemError("opening the run directory " + run_dir, errno, "It must exist and belong to this user");
    while (::flock(fd_.get(), LOCK_EX | LOCK_NB) != 0) {
        if (errno == EINTR) continue;
        if (errno == EWOULDBLOCK)
            throw SystemError("locking the run directory " + run_dir + ", which another process serves", EADDRINUSE,
                              kOneProducer, ErrorKind::RunInUse);
        throw SystemError("locking the run directory " + run_dir, errno, "It must be on a local file system");
    }
}

}  // namespace offramp
