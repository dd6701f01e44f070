#include "tests/bench/messages/bench_consumer.hpp"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <optional>
#include <utility>

#include "common/app/program/own_process.hpp"
#include "common/app/settings/kept_settings.hpp"
#include "common/base/clock.hpp"
#include "common/base/error.hpp"
#include "common/base/log.hpp"
#include "consumer/processors/processor.hpp"
#include "consumer/worker/consumer_program.hpp"

namespace offramp {
namespace {

constexpr std::size_t kMostLatencies = 10'000'000;

std::uint64_t cpu_ns() {
    timespec time{};
    ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(time.tv_nsec);
}

// Counts slabs, and records times if asked to. Reads no payload.
class Stamping final : public Processor {
  public:
    explicit Stamping(bool records_latencies) : records_(records_latencies) {
        if (records_) figures_.latencies_ns.reserve(1 << 20);
    }
    void process(const SlabContents& slab, const Progress&, const StillCurrent&) override {
        if (records_ && figures_.latencies_ns.size() < kMostLatencies)
            figures_.latencies_ns.push_back(now_ns() - slab.filled_at_ns);
        if (figures_.slabs++ == 0) first_cpu_ns_ = cpu_ns();
    }
    ConsumerStats stats() {
        if (figures_.slabs > 0) figures_.cpu_ns = cpu_ns() - first_cpu_ns_;
        return figures_;
    }

  private:
    const bool records_;
    std::uint64_t first_cpu_ns_ = 0;
    ConsumerStats figures_;
};

void write_words(int fd, const std::uint64_t* words, std::size_t count) {
    const auto* bytes = reinterpret_cast<const char*>(words);
    for (std::size_t left = count * sizeof *words; left > 0;) {
        const ssize_t written = ::write(fd, bytes, left);
        if (written < 0 && errno == EINTR) continue;
        if (written < 0) throw SystemError("writing the figures", errno);
        bytes += written;
        left -= static_cast<std::size_t>(written);
    }
}

std::vector<std::uint64_t> read_words(int fd) {
    std::vector<std::uint64_t> words(1024);
    std::size_t got = 0;
    while (true) {
        const std::size_t capacity = words.size() * sizeof words[0];
        if (got == capacity) words.resize(words.size() * 2);
        const ssize_t more =
            ::read(fd, reinterpret_cast<char*>(words.data()) + got, words.size() * sizeof words[0] - got);
        if (more < 0 && errno == EINTR) continue;
        if (more < 0) throw SystemError("reading a consumer's figures", errno);
        if (more == 0) break;
        got += static_cast<std::size_t>(more);
    }
    words.resize(got / sizeof words[0]);
    return words;
}

}  // namespace

BenchConsumer::BenchConsumer(const std::string& run_dir, std::uint32_t window, bool records_latencies) {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) throw SystemError("making a pipe", errno);
    figures_ = UniqueFd(ends[0]);
    const UniqueFd writing(ends[1]);
    const std::string window_text = std::to_string(window);
    const std::string fd_text = std::to_string(writing.get());
    const char* const arguments[] = {"offramp-message-bench",
                                     kAsConsumer,
                                     run_dir.c_str(),
                                     window_text.c_str(),
                                     fd_text.c_str(),
                                     records_latencies ? "latency" : "rate",
                                     nullptr};
    pid_ = ::fork();
    if (pid_ < 0) throw SystemError("fork", errno);
    if (pid_ == 0) {
        ::fcntl(writing.get(), F_SETFD, 0);
        ::execv("/proc/self/exe", const_cast<char* const*>(arguments));
        ::_exit(127);
    }
}

BenchConsumer::BenchConsumer(BenchConsumer&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)), figures_(std::move(other.figures_)) {}

BenchConsumer::~BenchConsumer() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
}

ConsumerStats BenchConsumer::finish() {
    const auto words = read_words(figures_.get());
    int status = 0;
    ::waitpid(std::exchange(pid_, -1), &status, 0);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0 || words.size() < 2)
        throw Error(ErrorKind::Internal, "a consumer ended with status " + std::to_string(status));
    return {.slabs = words[0], .cpu_ns = words[1], .latencies_ns = {words.begin() + 2, words.end()}};
}

RunConfig settings_of_bench_consumers() { return {}; }

int serve_as_bench_consumer(const std::vector<std::string>& arguments) {
    return exit_code_of([&] {
        const EndSignals signals;
        start_logging("message-bench", "warning", LogFormat::Text, "");
        RunConfig config = settings_of_bench_consumers();
        config.run_dir = arguments.at(0);
        config.window = static_cast<std::uint32_t>(std::stoul(arguments.at(1)));
        Stamping processor(arguments.at(3) == "latency");
        const auto endpoint = wait_for_run(config, std::nullopt, signals);
        if (!endpoint) return 0;
        const int code = serve_run(config, SlabWork::of(config).hash(), *endpoint, signals,
                                   [&]() -> Processor& { return processor; });
        const ConsumerStats figures = processor.stats();
        const UniqueFd out(std::stoi(arguments.at(2)));
        const std::uint64_t head[] = {figures.slabs, figures.cpu_ns};
        write_words(out.get(), head, 2);
        write_words(out.get(), figures.latencies_ns.data(), figures.latencies_ns.size());
        return code;
    });
}

}  // namespace offramp
