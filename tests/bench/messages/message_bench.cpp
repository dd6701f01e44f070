#include <pthread.h>
#include <signal.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <CLI/CLI.hpp>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "common/app/settings/kept_settings.hpp"
#include "common/base/error.hpp"
#include "common/base/log.hpp"
#include "common/base/trace.hpp"
#include "common/tracing/live_trace.hpp"
#include "consumer/worker/consumer_program.hpp"
#include "producer/egress/run_status.hpp"
#include "tests/bench/messages/bare_channel.hpp"
#include "tests/bench/messages/bench_consumer.hpp"
#include "tests/bench/messages/bench_run.hpp"
#include "tests/bench/messages/program_consumer.hpp"

// offramp-message-bench measures how many slabs per second pass through the work and free-list channels, and how long
// one takes from filled to opened. It prints one line of JSON.
//   offramp-message-bench --consumers 4 --slabs 64 --window 16 --seconds 3
//   offramp-message-bench --latency --seconds 5
//   offramp-message-bench --latency --bare --seconds 5
//   offramp-message-bench --consumers 4 -- --processor post.py:save
// Or a run of messages in the existing folder RUN_DIR until SIGTERM, for a launcher that starts consumers, watches and
// traces it (`offramp consume --run-dir RUN_DIR --processor none`).
//   offramp-message-bench --run-dir RUN_DIR
namespace offramp {
namespace {

using std::chrono::duration;

constexpr std::chrono::seconds kPatience{30};  // for one slab to be released

struct Settings {
    std::uint32_t consumers = 1;
    std::uint32_t slabs = 64;
    std::uint32_t window = 0;
    std::size_t payload_bytes = 4096;
    double seconds = 3;
    double warm_up_seconds = 0.5;
    double pause_seconds = 0.0005;  // with --latency: from one release to the next publication
    bool latency = false;
    bool bare = false;
    std::string run_dir;                      // empty: a temporary one, for its own consumers
    std::vector<std::string> consumer_flags;  // none: consumers are this program itself
};

std::optional<Settings> parse(int argc, char** argv, int& code) {
    Settings settings;
    CLI::App app("Measures the messages between one producer and N consumer processes");
    app.add_option("--consumers", settings.consumers)->capture_default_str()->check(CLI::Range(1, 64));
    app.add_option("--slabs", settings.slabs)->capture_default_str()->check(CLI::Range(1, 65536));
    app.add_option("--window", settings.window, "Slabs that a consumer may hold; 0: the default of a run")
        ->capture_default_str();
    app.add_option("--payload-bytes", settings.payload_bytes)->capture_default_str();
    app.add_option("--seconds", settings.seconds)->capture_default_str();
    app.add_option("--warm-up", settings.warm_up_seconds)->capture_default_str();
    app.add_option("--pause", settings.pause_seconds, "With --latency: seconds from a release to the next slab")
        ->capture_default_str();
    app.add_flag("--latency", settings.latency, "One slab at a time into an idle system");
    app.add_flag("--bare", settings.bare, "With --latency: libzmq alone, without broker and ledger")
        ->needs("--latency");
    CLI::Option* run_dir =
        app.add_option("--run-dir", settings.run_dir, "Run until SIGTERM for a launcher, which starts the consumers")
            ->check(CLI::ExistingDirectory)
            ->excludes("--latency");
    app.add_option("consumer-flags", settings.consumer_flags, "After --: run offramp-consumer with these flags")
        ->excludes("--latency")
        ->excludes(run_dir);
    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError& problem) {
        code = app.exit(problem);
        return std::nullopt;
    }
    return settings;
}

double process_cpu_seconds() {
    timespec time{};
    ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) / 1e9;
}

// The consumer processes: this program itself, which touches no payload, or offramp-consumer with any processor.
class Consumers {
  public:
    Consumers(const Settings& settings, const std::string& run_dir) {
        for (std::uint32_t i = 0; i < settings.consumers; ++i)
            if (settings.consumer_flags.empty())
                own_.emplace_back(run_dir, settings.window, settings.latency);
            else
                programs_.emplace_back(run_dir, settings.consumer_flags);
    }

    // Returns when all consumers take slabs, which may need an interpreter first.
    void wait_until_ready(const BenchRun& run) {
        const auto ready = [&] {
            return static_cast<std::size_t>(std::ranges::count(run.report().consumers, true, &ConsumerReport::ready));
        };
        while (ready() < own_.size() + programs_.size()) {
            for (ProgramConsumer& program : programs_) program.require_alive();
            std::this_thread::sleep_for(std::chrono::milliseconds(10));
        }
    }

    std::uint64_t programs_cpu_ns() const {
        std::uint64_t sum = 0;
        for (const ProgramConsumer& program : programs_) sum += program.cpu_ns();
        return sum;
    }

    // Statistics of consumers that run this program; others only end.
    std::optional<ConsumerStats> finish() {
        for (ProgramConsumer& program : programs_) program.finish();
        if (own_.empty()) return std::nullopt;
        ConsumerStats all;
        for (BenchConsumer& consumer : own_) {
            const ConsumerStats figures = consumer.finish();
            all.slabs += figures.slabs;
            all.cpu_ns += figures.cpu_ns;
            all.latencies_ns.insert(all.latencies_ns.end(), figures.latencies_ns.begin(), figures.latencies_ns.end());
        }
        return all;
    }

  private:
    std::vector<BenchConsumer> own_;
    std::vector<ProgramConsumer> programs_;
};

struct Moment {
    BrokerReport report;
    double cpu_seconds = 0;
    std::uint64_t programs_cpu_ns = 0;
    std::uint64_t ticket_messages = 0, release_messages = 0, acknowledgements = 0, steps = 0;
};

Moment look(const BenchRun& run, const Consumers& consumers) {
    const MessageCounts& counts = run.messages();
    return {run.report(),
            process_cpu_seconds(),
            consumers.programs_cpu_ns(),
            counts.ticket_messages,
            counts.release_messages,
            counts.acknowledgements,
            counts.steps};
}

// A moment after a slab was released since `before`, because the broker's statistics lag behind. Empty after a timeout.
std::optional<Moment> look_behind(const Moment& before, const BenchRun& run, const Consumers& consumers) {
    const auto until = std::chrono::steady_clock::now() + kPatience;
    Moment now = look(run, consumers);
    while (now.report.last_release_ns <= before.report.last_release_ns) {
        if (std::chrono::steady_clock::now() > until) return std::nullopt;
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
        now = look(run, consumers);
    }
    return now;
}

double microseconds(std::uint64_t ns) { return static_cast<double>(ns) / 1e3; }

nlohmann::json describe_latencies(std::vector<std::uint64_t> all) {
    if (all.empty()) return {};
    std::sort(all.begin(), all.end());
    const auto at = [&](double share) {
        return microseconds(
            all[std::min(all.size() - 1, static_cast<std::size_t>(share * static_cast<double>(all.size())))]);
    };
    // Eight steps per doubling: each bar is 9 % wide.
    nlohmann::json histogram = nlohmann::json::array();
    double upper = 1;
    std::size_t begin = 0;
    while (begin < all.size()) {
        const auto end = static_cast<std::size_t>(
            std::upper_bound(all.begin(), all.end(), static_cast<std::uint64_t>(upper * 1000)) - all.begin());
        if (end > begin) histogram.push_back({upper, end - begin});
        begin = end;
        upper *= 1.0905077326652577;
    }
    return {{"count", all.size()},
            {"p50_us", at(0.5)},
            {"p99_us", at(0.99)},
            {"p999_us", at(0.999)},
            {"max_us", microseconds(all.back())},
            {"histogram", histogram}};
}

// The producer's two parts of the latency, in the order of the slabs.
struct Hops {
    std::vector<std::uint64_t> filled_to_awake_ns;  // until the broker's thread runs
    std::vector<std::uint64_t> awake_to_sent_ns;    // its step, until libzmq has the tickets
};

void feed_until(BenchRun& run, const Settings& settings, const std::atomic<bool>& stopping, Hops& hops) {
    const auto pause = duration<double>(settings.pause_seconds);
    while (!stopping && run.feed()) {
        if (!settings.latency) continue;
        std::this_thread::sleep_for(pause);
        const std::uint64_t filled = run.filled_at_ns(), woke = run.messages().woke_at_ns,
                            sent = run.messages().tickets_sent_at_ns;
        if (woke < filled || sent < woke) continue;  // not sent yet, or the broker was awake
        hops.filled_to_awake_ns.push_back(woke - filled);
        hops.awake_to_sent_ns.push_back(sent - woke);
    }
    run.finish();
}

// Requires at least one value.
double median_us(std::vector<std::uint64_t> all) {
    std::nth_element(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(all.size() / 2), all.end());
    return microseconds(all[all.size() / 2]);
}

nlohmann::json measure(const Settings& settings) {
    // With one slab, the next is free only once the last was released: the system is idle when it is published.
    const std::uint32_t slabs = settings.latency ? 1 : settings.slabs;
    const std::uint64_t work =
        settings.consumer_flags.empty() ? SlabWork::of(settings_of_bench_consumers()).hash() : kNoSettings;
    BenchRun run(slabs, settings.payload_bytes, work);
    Consumers consumers(settings, run.run_dir());
    consumers.wait_until_ready(run);

    std::atomic<bool> stopping{false};
    Hops hops;
    std::thread feeder([&] { feed_until(run, settings, stopping, hops); });
    std::this_thread::sleep_for(duration<double>(settings.warm_up_seconds));
    const std::optional<Moment> first = look_behind({}, run, consumers);
    if (first) std::this_thread::sleep_for(duration<double>(settings.seconds));
    const std::optional<Moment> last = first ? look_behind(*first, run, consumers) : std::nullopt;
    stopping = true;
    if (!last) run.stop();  // the feeder may be waiting for a slab
    feeder.join();
    if (!last)
        throw Error(ErrorKind::Internal,
                    "measuring: no slab was released for " + std::to_string(kPatience.count()) + " s",
                    "Its consumers must finish a slab in that time");
    run.join();
    const Moment &begin = *first, &end = *last;

    std::optional<ConsumerStats> figures = consumers.finish();
    const BrokerReport books = run.report();
    const auto released = static_cast<double>(end.report.completed.slabs - begin.report.completed.slabs);
    const auto over_ns = static_cast<double>(end.report.last_release_ns - begin.report.last_release_ns);
    const std::uint64_t consumed = figures ? figures->slabs : books.completed.slabs;
    const auto per = [](double amount, double count) { return count > 0 ? amount / count : 0; };
    nlohmann::json result{
        {"slabs_per_second", per(released, over_ns / 1e9)},
        {"consumers", settings.consumers},
        {"slabs", slabs},
        {"window", settings.window},
        {"payload_bytes", settings.payload_bytes},
        {"producer_cpu_us_per_slab", per((end.cpu_seconds - begin.cpu_seconds) * 1e6, released)},
        {"consumer_cpu_us_per_slab", figures
                                         ? per(microseconds(figures->cpu_ns), static_cast<double>(consumed))
                                         : per(microseconds(end.programs_cpu_ns - begin.programs_cpu_ns), released)},
        {"tickets_per_message", per(static_cast<double>(end.report.deliveries - begin.report.deliveries),
                                    static_cast<double>(end.ticket_messages - begin.ticket_messages))},
        {"releases_per_message", per(released, static_cast<double>(end.release_messages - begin.release_messages))},
        {"acknowledgements_per_slab",
         per(static_cast<double>(end.acknowledgements - begin.acknowledgements), released)},
        {"slabs_per_broker_step", per(released, static_cast<double>(end.steps - begin.steps))},
        {"repeated_releases", books.repeated_releases},
        {"conserved", books.conserved() && books.completed.slabs == consumed && books.published.slabs == consumed}};
    if (settings.latency) {
        result["latency"] = describe_latencies(std::move(figures->latencies_ns));
        // None if every slab was dispatched inline, without the broker's thread: there was no hop.
        if (!hops.filled_to_awake_ns.empty()) {
            result["latency"]["filled_to_broker_awake_p50_us"] = median_us(std::move(hops.filled_to_awake_ns));
            result["latency"]["broker_step_p50_us"] = median_us(std::move(hops.awake_to_sent_ns));
        }
    }
    return result;
}

// Threads started after this leave SIGTERM to sigwait().
sigset_t block_sigterm() {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
    return set;
}

void serve(const Settings& settings) {
    const sigset_t ends = block_sigterm();
    const std::uint64_t began_ns = now_ns();
    BenchRun run(settings.slabs, settings.payload_bytes, kNoSettings, settings.run_dir);
    std::atomic<std::uint64_t> fed{0};
    LiveTrace trace(run.run_dir(), "producer", "main");
    RunStatus status(
        {.run_dir = run.run_dir(),
         .run_id = run.names().run_id,
         .name = "messages",
         .nonce = run.names().nonce,
         .epoch = run.epoch(),
         .device = "cpu",
         .device_uuid = {},
         .began_ns = began_ns,
         .shm_bytes = run.shm_bytes()},
        [&] {
            EgressStats now;
            now.at_ns = now_ns();
            now.output.samples_submitted = fed;
            now.broker = run.report();
            return now;
        },
        [&] { trace.look(SteadyClock{}.now()); });
    std::atomic<bool> stopping{false};
    std::thread feeder([&] {
        name_this_thread("feeder");
        while (!stopping && run.feed()) ++fed;
        run.finish();
    });
    int number = 0;
    ::sigwait(&ends, &number);
    stopping = true;
    status.change("draining");
    const bool is_alone = run.report().consumers.empty();
    if (is_alone) run.stop();  // no consumer will release a slab, or leave
    feeder.join();
    if (!is_alone) run.join();
    trace.end();
    status.end("ended");
}

int run_bench(int argc, char** argv) {
    int code = 0;
    const auto settings = parse(argc, argv, code);
    if (!settings) return code;
    start_logging("message-bench", "warning", LogFormat::Text, "");
    if (settings->bare) {
        const nlohmann::json latency = describe_latencies(
            bare_channel_latencies_ns(duration<double>(settings->seconds), duration<double>(settings->pause_seconds)));
        std::printf("%s\n", nlohmann::json{{"latency", latency}}.dump().c_str());
        return 0;
    }
    if (!settings->run_dir.empty()) {
        serve(*settings);
        return 0;
    }
    const nlohmann::json result = measure(*settings);
    std::printf("%s\n", result.dump().c_str());
    return result["conserved"].get<bool>() ? 0 : to_int(ErrorKind::Internal);
}

}  // namespace
}  // namespace offramp

int main(int argc, char** argv) {
    if (argc > 1 && std::string(argv[1]) == offramp::kAsConsumer)
        return offramp::serve_as_bench_consumer({argv + 2, argv + argc});
    return offramp::exit_code_of([&] { return offramp::run_bench(argc, argv); });
}
