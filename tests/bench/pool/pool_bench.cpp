#include <unistd.h>

#include <algorithm>
#include <CLI/CLI.hpp>
#include <cstdio>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "common/base/clock.hpp"
#include "common/base/error.hpp"
#include "common/base/log.hpp"
#include "common/shm/shared_region.hpp"
#include "producer/device/device.hpp"
#include "producer/pool/slab_pool.hpp"
#include "tests/support/held_run.hpp"

// offramp-pool-bench: seconds until the first slab, and until all, may be filled. Three ways in turn (or those that
// --ways names), several rounds, one line of JSON:
//   pool           SlabPool as the producer makes it
//   span-by-span   one span after the other, every core on each
//   one-object     all slabs in one object: reserved, then registered as a whole, which faults it in
// On a machine with a GPU the memory is page-locked as well.
//   offramp-pool-bench --slabs 8 --slab-bytes 1409290240 --rounds 5
namespace offramp {
namespace {

struct Settings {
    std::uint32_t slabs = 8;
    std::size_t slab_bytes = std::size_t{64} << 20;
    std::uint32_t max_spans = SpanPlan::kBySize;
    SlabPool::Threads threads;
    int rounds = 5;
    std::vector<std::string> ways{"pool", "span-by-span", "one-object"};
    std::string device = "auto";
};

struct Times {
    double first = 0;
    double all = 0;
};

std::optional<Settings> parse(int argc, char** argv, int& code) {
    Settings settings;
    CLI::App app("Measures how soon the pool's slabs can be filled");
    app.add_option("--slabs", settings.slabs)->capture_default_str()->check(CLI::Range(1, 4096));
    app.add_option("--slab-bytes", settings.slab_bytes)->capture_default_str();
    app.add_option("--max-spans", settings.max_spans, "0: as the producer chooses")->capture_default_str();
    app.add_option("--first-span-threads", settings.threads.first_span, "0: one a core")->capture_default_str();
    app.add_option("--other-span-threads", settings.threads.other_spans)
        ->capture_default_str()
        ->check(CLI::Range(1, 256));
    app.add_option("--spans-at-once", settings.threads.spans_at_once, "0: one a core")->capture_default_str();
    app.add_option("--ways", settings.ways)->delimiter(',')->capture_default_str()->check(CLI::IsMember(settings.ways));
    app.add_option("--rounds", settings.rounds)->capture_default_str()->check(CLI::Range(1, 1000));
    app.add_option("--device", settings.device, "auto, cpu, cuda, cuda:N")->capture_default_str();
    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError& problem) {
        code = app.exit(problem);
        return std::nullopt;
    }
    settings.slab_bytes = round_up(settings.slab_bytes, kPageBytes);
    return settings;
}

double seconds_since(std::uint64_t began_ns) { return static_cast<double>(now_ns() - began_ns) / 1e9; }

class PoolBench {
  public:
    explicit PoolBench(const Settings& settings)
        : settings_(settings),
          plan_(SpanPlan::make(settings.slabs, settings.slab_bytes, settings.max_spans)),
          run_({"pool-bench", RunNames::random_nonce()}),
          device_(open_device(settings.device)) {
        device_->use_on_this_thread();
        if (device_->is_gpu()) device_->allocate(kPageBytes, "setting CUDA up before the clock starts");
    }

    Times pool(SlabPool::Threads threads) {
        SlabPool::Pin pin;
        if (device_->is_gpu())
            pin = [this](std::span<std::byte> span) -> std::shared_ptr<void> {
                device_->use_on_this_thread();
                return device_->pin(span);
            };
        SlabPool pool(run_.names(), plan_, pin, false, {[] {}, [](std::exception_ptr) {}}, threads);
        pool.wait_until_all_usable();
        return {pool.seconds_to_first(), pool.seconds_to_all()};
    }

    Times span_by_span() {
        const unsigned cores = std::max(1U, std::thread::hardware_concurrency());
        return pool({.first_span = cores, .other_spans = cores, .spans_at_once = 1});
    }

    Times one_object() {
        const std::uint64_t began = now_ns();
        auto region = SharedRegion::create(run_.names().span(0), plan_.total_bytes());
        std::unique_ptr<PinnedRegistration> registration;
        if (device_->is_gpu())
            registration = device_->pin(region.bytes());
        else
            region.populate(0, plan_.total_bytes());  // by one thread, as a registration does
        const double seconds = seconds_since(began);
        registration.reset();
        return {seconds, seconds};
    }

    nlohmann::json measure() {
        const std::map<std::string, std::function<Times()>> ways{{"pool", [this] { return pool(settings_.threads); }},
                                                                 {"span-by-span", [this] { return span_by_span(); }},
                                                                 {"one-object", [this] { return one_object(); }}};
        std::map<std::string, std::vector<Times>> seen;
        for (int round = 0; round < settings_.rounds; ++round)
            for (const auto& name : settings_.ways) seen[name].push_back(ways.at(name)());
        nlohmann::json result{{"slabs", settings_.slabs},
                              {"slab_bytes", settings_.slab_bytes},
                              {"spans", plan_.span_count},
                              {"rounds", settings_.rounds},
                              {"device", device_->info().name},
                              {"page_locked", device_->is_gpu()},
                              {"cores", std::thread::hardware_concurrency()}};
        for (const auto& [name, times] : seen) result[name] = describe(times);
        if (seen.contains("pool") && seen.contains("one-object"))
            result["pool_all_over_one_object"] =
                result["pool"]["all_seconds"].get<double>() / result["one-object"]["all_seconds"].get<double>();
        return result;
    }

  private:
    static nlohmann::json describe(const std::vector<Times>& times) {
        std::vector<double> first, all;
        for (const Times& time : times) {
            first.push_back(time.first);
            all.push_back(time.all);
        }
        std::sort(first.begin(), first.end());
        std::sort(all.begin(), all.end());
        return {{"first_seconds", first[first.size() / 2]},
                {"first_seconds_range", {first.front(), first.back()}},
                {"all_seconds", all[all.size() / 2]},
                {"all_seconds_range", {all.front(), all.back()}}};
    }

    const Settings& settings_;
    const SpanPlan plan_;
    const HeldRun run_;
    std::unique_ptr<Device> device_;
};

int run_bench(int argc, char** argv) {
    int code = 0;
    const auto settings = parse(argc, argv, code);
    if (!settings) return code;
    start_logging("pool-bench", "warning", LogFormat::Text, "");
    std::printf("%s\n", PoolBench(*settings).measure().dump().c_str());
    return 0;
}

}  // namespace
}  // namespace offramp

int main(int argc, char** argv) {
    try {
        return offramp::run_bench(argc, argv);
    } catch (const offramp::Error& problem) {
        std::fprintf(stderr, "%s\n", problem.what());
        return offramp::to_int(problem.kind());
    }
}
