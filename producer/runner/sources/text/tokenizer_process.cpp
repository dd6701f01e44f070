#include "producer/runner/sources/text/tokenizer_process.hpp"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <limits>
#include <thread>
#include <utility>
#include <vector>

#include "common/base/error.hpp"
#include "common/base/scarcity.hpp"

extern char** environ;

namespace offramp {
namespace {

constexpr std::uint32_t kRefused = 1;
constexpr std::size_t kMaxReason = 4096;
constexpr std::chrono::milliseconds kLook{2};
constexpr std::chrono::milliseconds kPatience{5000};  // how long to wait for a process whose input was closed
constexpr timeval kAnswerWithin{.tv_sec = 300, .tv_usec = 0};

// Gives the process a socket on its standard input and output. It gets none of the producer's other descriptors, since
// some hold locks, and none of its blocked signals. It has its own session: a terminal's Ctrl-C is for the producer,
// which still needs the process to drain.
class SpawnSettings {
  public:
    explicit SpawnSettings(int socket) {
        ::posix_spawn_file_actions_init(&files_);
        ::posix_spawn_file_actions_adddup2(&files_, socket, STDIN_FILENO);
        ::posix_spawn_file_actions_adddup2(&files_, socket, STDOUT_FILENO);
        ::posix_spawn_file_actions_addclosefrom_np(&files_, STDERR_FILENO + 1);
        ::posix_spawnattr_init(&attributes_);
        ::posix_spawnattr_setflags(&attributes_, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSID);
        sigset_t none;
        sigset_t all;
        ::sigemptyset(&none);
        ::sigfillset(&all);
        ::posix_spawnattr_setsigmask(&attributes_, &none);
        ::posix_spawnattr_setsigdefault(&attributes_, &all);
    }
    ~SpawnSettings() {
        ::posix_spawn_file_actions_destroy(&files_);
        ::posix_spawnattr_destroy(&attributes_);
    }
    SpawnSettings(const SpawnSettings&) = delete;
    SpawnSettings& operator=(const SpawnSettings&) = delete;

    const posix_spawn_file_actions_t* files() const { return &files_; }
    const posix_spawnattr_t* attributes() const { return &attributes_; }

  private:
    posix_spawn_file_actions_t files_;
    posix_spawnattr_t attributes_;
};

}  // namespace

TokenizerProcess::TokenizerProcess(Settings settings) : settings_(std::move(settings)) {
    expect(settings_.length > 0, "a row has tokens");
    start();
}

std::uint32_t TokenizerProcess::open() {
    receive_reply(std::as_writable_bytes(std::span(&tokens_, 1)));
    return tokens_;
}

void TokenizerProcess::end_input() noexcept {
    child_.input_ended = std::chrono::steady_clock::now();
    ::shutdown(socket_.get(), SHUT_RDWR);
}

// After many inputs end together, the waits for their processes overlap.
TokenizerProcess::Child::~Child() {
    if (pid <= 0) return;
    const auto now = std::chrono::steady_clock::now();
    const auto until = (input_ended == std::chrono::steady_clock::time_point{} ? now : input_ended) + kPatience;
    do {
        if (::waitpid(pid, nullptr, WNOHANG) != 0) return;
        std::this_thread::sleep_for(kLook);
    } while (std::chrono::steady_clock::now() < until);
    ::kill(pid, SIGKILL);
    while (::waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
    }
}

void TokenizerProcess::start() {
    std::array<int, 2> pair{};
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair.data()) != 0)
        throw SystemError("a socket for the tokenizer cannot be made", errno);
    socket_ = UniqueFd(pair[0]);
    if (::setsockopt(socket_.get(), SOL_SOCKET, SO_RCVTIMEO, &kAnswerWithin, sizeof kAnswerWithin) != 0)
        throw SystemError("the tokenizer's socket cannot be set up", errno);
    const UniqueFd theirs(pair[1]);
    const std::string length = std::to_string(settings_.length);
    std::string tokens = std::to_string(settings_.chunk_tokens), overlap = std::to_string(settings_.chunk_overlap);
    // argv requires char*, but the words are not changed.
    std::array<char*, 8> words{settings_.python.data(), settings_.server.data(), settings_.tokenizer.data(),
                               const_cast<char*>(length.c_str()), settings_.prompt.data()};
    if (settings_.chunk_tokens > 0) {
        words[5] = tokens.data();
        words[6] = overlap.data();
    }
    const SpawnSettings spawn(theirs.get());
    const int failed =
        ::posix_spawnp(&child_.pid, settings_.python.c_str(), spawn.files(), spawn.attributes(), words.data(), environ);
    if (failed != 0) {
        child_.pid = -1;
        throw SystemError(
            "the tokenizer's Python '" + settings_.python + "' cannot be started", failed,
            way_to_start(failed, "OFFRAMP_TOKENIZER_PYTHON names a Python with the `tokenizers` package"));
    }
}

std::vector<std::int32_t> TokenizerProcess::encode(std::span<const std::string_view> texts,
                                                   std::span<std::int32_t> rows) {
    expect(rows.size() == texts.size() * 2 * settings_.length, "there is place for every row");
    send_texts(texts);
    std::vector<std::int32_t> was_cut(texts.size());
    const std::size_t wanted = rows.size_bytes() + was_cut.size() * sizeof(std::int32_t);
    if (const std::uint32_t bytes = receive_front(); bytes != wanted)
        fail("gave " + std::to_string(bytes) + " bytes, expected " + std::to_string(wanted));
    receive(std::as_writable_bytes(rows));
    receive(std::as_writable_bytes(std::span(was_cut)));
    return was_cut;
}

std::vector<TextSpan> TokenizerProcess::spans(std::string_view text) {
    expect(settings_.chunk_tokens > 0, "it cuts texts");
    send_texts({&text, 1});
    static_assert(sizeof(TextSpan) == 8);
    const std::uint32_t bytes = receive_front();
    if (bytes == 0 || bytes % sizeof(TextSpan) != 0) fail("gave " + std::to_string(bytes) + " bytes of places");
    std::vector<TextSpan> spans(bytes / sizeof(TextSpan));
    receive(std::as_writable_bytes(std::span(spans)));
    return spans;
}

void TokenizerProcess::send_texts(std::span<const std::string_view> texts) {
    std::vector<std::uint32_t> sizes{static_cast<std::uint32_t>(texts.size())};
    for (const std::string_view text : texts) {
        expect(text.size() < std::numeric_limits<std::uint32_t>::max(), "a text's size fits its field");
        sizes.push_back(static_cast<std::uint32_t>(text.size()));
    }
    send(std::as_bytes(std::span(sizes)));
    for (const std::string_view text : texts) send(std::as_bytes(std::span(text)));
}

void TokenizerProcess::send(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
        const ssize_t sent = ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR) continue;
        if (sent < 0) return;  // the reply states the reason, or shows that the process is gone
        bytes = bytes.subspan(static_cast<std::size_t>(sent));
    }
}

void TokenizerProcess::receive(std::span<std::byte> bytes) {
    while (!bytes.empty()) {
        const ssize_t received = ::recv(socket_.get(), bytes.data(), bytes.size(), 0);
        if (received < 0 && errno == EINTR) continue;
        if (received < 0 && errno == EAGAIN)
            fail("gave no answer within " + std::to_string(kAnswerWithin.tv_sec) + " s");
        if (received <= 0) fail("ended in the middle of its work; see its messages above, in the producer's log");
        bytes = bytes.subspan(static_cast<std::size_t>(received));
    }
}

std::uint32_t TokenizerProcess::receive_front() {
    std::array<std::uint32_t, 2> front{};
    receive(std::as_writable_bytes(std::span(front)));
    if (front[0] == kRefused) {
        std::string reason(std::min<std::size_t>(front[1], kMaxReason), '\0');
        receive(std::as_writable_bytes(std::span(reason)));
        if (tokens_ > 0) fail("gave up: " + reason);  // fails during the run: the tokenizer's file is valid
        constexpr std::string_view kChunks = "ValueError: --chunk";
        if (reason.starts_with(kChunks))
            throw ConfigError(reason.substr(kChunks.find("--")), "Give larger chunks, or a smaller --chunk-overlap");
        const bool no_library = reason.starts_with("ModuleNotFoundError") || reason.starts_with("ImportError");
        throw ConfigError("tokenizer '" + settings_.tokenizer + "': " + reason,
                          no_library ? "Install the PyPI package `tokenizers` for '" + settings_.python +
                                           "', or name a Python that has it in OFFRAMP_TOKENIZER_PYTHON"
                                     : "Give a tokenizer.json that the `tokenizers` library wrote",
                          no_library ? ErrorKind::System : ErrorKind::BadInput);
    }
    if (front[0] != 0) fail("gave an answer of an unknown kind: " + std::to_string(front[0]));
    return front[1];
}

void TokenizerProcess::receive_reply(std::span<std::byte> payload) {
    const std::uint32_t bytes = receive_front();
    if (bytes != payload.size())
        fail("gave " + std::to_string(bytes) + " bytes, expected " + std::to_string(payload.size()));
    receive(payload);
}

void TokenizerProcess::fail(const std::string& what) {
    throw Error(ErrorKind::System, "the tokenizer ('" + settings_.python + "' '" + settings_.server + "' '" +
                                       settings_.tokenizer + "') " + what);
}

}  // namespace offramp
