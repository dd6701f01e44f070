// Random histories of a run, each from one seed, in one process without threads: see tests/README.md.

#include <spdlog/spdlog.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/simulation/simulated_run.hpp"

namespace offramp::simulation {
namespace {

constexpr std::uint64_t kQuickHistories = 15'000;
constexpr std::uint64_t kRepeated = 200;    // run twice, to see that a seed decides everything
constexpr std::uint64_t kRevealing = 5000;  // this many have every kind of event
constexpr int kShrinkingRuns = 3000;

struct Arguments {
    std::uint64_t histories = kQuickHistories;
    std::uint64_t seed = 1;
    std::optional<std::vector<std::size_t>> only;  // these steps of the seed's plan
    bool trace = false;
    Twin twin = Twin::None;
    bool all_twins = false;
};

[[noreturn]] void usage(const std::string& problem) {
    std::fprintf(stderr,
                 "simulation: %s\n"
                 "usage: simulation [--histories N] [--seed S] [--twin NAME | --twins]\n"
                 "       simulation --seed S --trace [--only STEP,STEP...] [--twin NAME]\n",
                 problem.c_str());
    std::exit(64);
}

std::uint64_t number(std::string_view text) {
    std::uint64_t value = 0;
    const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (problem != std::errc{} || end != text.data() + text.size())
        usage("'" + std::string(text) + "' is not a number");
    return value;
}

std::vector<std::size_t> numbers(std::string_view text) {
    std::vector<std::size_t> found;
    while (!text.empty()) {
        const std::size_t comma = std::min(text.find(','), text.size());
        found.push_back(number(text.substr(0, comma)));
        text.remove_prefix(std::min(comma + 1, text.size()));
    }
    return found;
}

Twin twin_named(std::string_view name) {
    for (std::size_t i = 0; i < kTwins; ++i)
        if (name == name_of(static_cast<Twin>(i))) return static_cast<Twin>(i);
    usage("there is no twin '" + std::string(name) + "'");
}

Arguments parse(int count, char** values) {
    Arguments arguments;
    for (int i = 1; i < count; ++i) {
        const std::string_view flag = values[i];
        if (flag == "--trace") {
            arguments.trace = true;
            continue;
        }
        if (flag == "--twins") {
            arguments.all_twins = true;
            continue;
        }
        if (i + 1 == count) usage("'" + std::string(flag) + "' needs a value, or is unknown");
        const std::string_view value = values[++i];
        if (flag == "--histories")
            arguments.histories = number(value);
        else if (flag == "--seed")
            arguments.seed = number(value);
        else if (flag == "--only")
            arguments.only = numbers(value);
        else if (flag == "--twin")
            arguments.twin = twin_named(value);
        else
            usage("'" + std::string(flag) + "' is unknown");
    }
    return arguments;
}

class Histories {
  public:
    explicit Histories(Twin twin) : twin_(twin) {}

    // The violation, or nothing.
    std::optional<std::string> run(const Plan& plan, const std::vector<std::size_t>& steps, bool trace) {
        std::unique_ptr<SharedObjects>& shared = shared_[{plan.setup.slabs, plan.setup.groups}];
        if (!shared) shared = std::make_unique<SharedObjects>(plan.setup);
        try {
            SimulatedRun run(*shared, plan.setup, twin_, counts_, trace);
            for (const std::size_t step : steps) {
                if (trace) {
                    const auto& [action, who, how] = plan.steps[step];
                    run.say("[" + std::to_string(step) + "] " + std::string(name_of(action)));
                }
                run.take(plan.steps[step]);
            }
            run.finish();
            digest_ = run.digest();
        } catch (const std::exception& problem) {
            return problem.what();
        }
        return std::nullopt;
    }

    // Leaves steps out for as long as the rest still fails, in ever smaller pieces.
    std::vector<std::size_t> shrink(const Plan& plan, std::vector<std::size_t> steps) {
        int runs = 0;
        for (std::size_t piece = std::max<std::size_t>(1, steps.size() / 2); runs < kShrinkingRuns;) {
            bool shorter = false;
            for (std::size_t at = 0; at < steps.size() && runs < kShrinkingRuns;) {
                std::vector<std::size_t> fewer(steps.begin(), steps.begin() + static_cast<std::ptrdiff_t>(at));
                const std::size_t after = std::min(at + piece, steps.size());
                fewer.insert(fewer.end(), steps.begin() + static_cast<std::ptrdiff_t>(after), steps.end());
                ++runs;
                if (run(plan, fewer, false)) {
                    steps = std::move(fewer);
                    shorter = true;
                } else {
                    at += piece;
                }
            }
            if (piece == 1 && !shorter) break;
            piece = std::max<std::size_t>(1, piece / 2);
        }
        return steps;
    }

    std::uint64_t digest() const { return digest_; }
    Counts& counts() { return counts_; }

  private:
    const Twin twin_;
    std::map<std::pair<std::uint32_t, std::uint32_t>, std::unique_ptr<SharedObjects>> shared_;  // by slabs, groups
    Counts counts_;
    std::uint64_t digest_ = 0;
};

std::vector<std::size_t> all_steps(const Plan& plan) {
    std::vector<std::size_t> steps(plan.steps.size());
    for (std::size_t i = 0; i < steps.size(); ++i) steps[i] = i;
    return steps;
}

std::string join(const std::vector<std::size_t>& steps) {
    std::string text;
    for (const std::size_t step : steps) text += (text.empty() ? "" : ",") + std::to_string(step);
    return text;
}

void explain(Histories& histories, const Arguments& arguments, std::uint64_t seed, const std::string& problem) {
    const Plan plan = Plan::from_seed(seed);
    const std::vector<std::size_t> steps = histories.shrink(plan, all_steps(plan));
    std::printf("seed %llu: %s\n", static_cast<unsigned long long>(seed), problem.c_str());
    std::printf("%zu of its %zu steps are enough:\n", steps.size(), plan.steps.size());
    const auto shorter = histories.run(plan, steps, true);
    std::printf("=> %s\n", shorter.value_or("it passes now").c_str());
    std::printf("replay: simulation --seed %llu --trace%s%s\n", static_cast<unsigned long long>(seed),
                steps.empty() ? "" : (" --only " + join(steps)).c_str(),
                arguments.twin == Twin::None ? "" : (" --twin " + std::string(name_of(arguments.twin))).c_str());
}

// Each kind of event takes place: otherwise the histories test less than they claim.
bool all_happened(const Counts& counts) {
    bool all = true;
    const auto require = [&](std::uint64_t times, const char* what) {
        if (times == 0) std::printf("no history has %s\n", what);
        all = all && times > 0;
    };
    require(counts.completed, "a completed batch");
    require(counts.dead_letters, "a dead letter");
    require(counts.dropped, "a dropped batch");
    require(counts.redeliveries, "a redelivery");
    require(counts.consumer_kills, "a killed consumer");
    require(counts.consumer_fuses, "a consumer that died at a failpoint");
    require(counts.stalled_kills, "a consumer killed because it was stalled");
    require(counts.producer_kills, "a killed producer");
    require(counts.producer_fuses, "a producer that died at a failpoint");
    require(counts.returned_consumers, "a consumer that met the next producer");
    require(counts.aborts, "an abort");
    require(counts.lost_by_one, "a batch that one group completed and another could not process");
    require(counts.optional_drops, "a drop in an optional group");
    require(counts.oldest_drops, "a drop of the oldest slab");
    require(counts.group_drops, "a drop in a required group");
    require(counts.spilled, "a slab on the disk");
    require(counts.read_back, "a slab that was read back");
    require(counts.lost_files, "a slab on the disk that another group lost");
    require(counts.full_disks, "a full disk");
    require(counts.letters, "a written dead letter");
    require(counts.letters_lost, "a dead letter that could not be written");
    return all;
}

int replay(const Arguments& arguments) {
    Histories histories(arguments.twin);
    const Plan plan = Plan::from_seed(arguments.seed);
    std::vector<std::size_t> steps = arguments.only.value_or(all_steps(plan));
    for (const std::size_t step : steps)
        if (step >= plan.steps.size()) usage("seed has no step " + std::to_string(step));
    const auto problem = histories.run(plan, steps, true);
    std::printf("=> %s\n", problem.value_or("passed").c_str());
    return problem ? 1 : 0;
}

// Each planted error is found.
int find_twins(const Arguments& arguments) {
    bool all = true;
    for (std::size_t i = 1; i < kTwins; ++i) {
        const auto twin = static_cast<Twin>(i);
        Histories histories(twin);
        std::optional<std::string> problem;
        std::uint64_t seed = arguments.seed;
        for (; !problem && seed < arguments.seed + arguments.histories; ++seed) {
            const Plan plan = Plan::from_seed(seed);
            problem = histories.run(plan, all_steps(plan), false);
        }
        std::printf("%-22s %s\n", std::string(name_of(twin)).c_str(),
                    problem ? ("seed " + std::to_string(seed - 1) + ": " + *problem).c_str() : "NOT FOUND");
        all = all && problem;
    }
    return all ? 0 : 1;
}

int run_many(const Arguments& arguments) {
    Histories histories(arguments.twin);
    for (std::uint64_t i = 0; i < arguments.histories; ++i) {
        const std::uint64_t seed = arguments.seed + i;
        const Plan plan = Plan::from_seed(seed);
        auto problem = histories.run(plan, all_steps(plan), false);
        ++histories.counts().histories;
        const std::uint64_t digest = histories.digest();
        if (!problem && i < kRepeated) {
            const Counts before = histories.counts();
            problem = histories.run(plan, all_steps(plan), false);
            if (!problem && histories.digest() != digest) problem = "the seed's history is another one each time";
            if (!problem) histories.counts() = before;
        }
        if (!problem) continue;
        explain(histories, arguments, seed, *problem);
        return 1;
    }
    const Counts& counts = histories.counts();
    const auto print = [](std::uint64_t times, const char* what) {
        std::printf("%12llu %s\n", static_cast<unsigned long long>(times), what);
    };
    print(counts.histories, "histories");
    print(counts.steps, "steps");
    print(counts.published, "slabs published");
    print(counts.completed, "completed");
    print(counts.dead_letters, "dead letters");
    print(counts.dropped, "batches dropped");
    print(counts.redeliveries, "repeated deliveries");
    print(counts.consumer_kills, "consumers killed");
    print(counts.consumer_fuses, "consumers dead at a failpoint");
    print(counts.stalled_kills, "consumers killed because they were stalled");
    print(counts.producer_kills, "producers killed");
    print(counts.producer_fuses, "producers dead at a failpoint");
    print(counts.recoveries, "recoveries begun");
    print(counts.returned_consumers, "consumers that met the next producer");
    print(counts.aborts, "aborts");
    print(counts.with_groups, "histories with groups");
    print(counts.lost_by_one, "batches completed in one group and lost in another");
    print(counts.optional_drops, "batches dropped in an optional group");
    print(counts.oldest_drops, "batches dropped as the oldest");
    print(counts.group_drops, "batches dropped in a required group");
    print(counts.spilled, "batches spilled");
    print(counts.read_back, "batches read back");
    print(counts.lost_files, "batches on the disk that another group lost");
    print(counts.full_disks, "batches not spilled, as the disk was full");
    print(counts.letters, "dead letters written");
    print(counts.letters_lost, "dead letters that could not be written");
    return counts.histories < kRevealing || all_happened(counts) ? 0 : 1;
}

}  // namespace
}  // namespace offramp::simulation

int main(int count, char** values) {
    using namespace offramp::simulation;
    spdlog::set_level(spdlog::level::off);
    const Arguments arguments = parse(count, values);
    if (arguments.trace) return replay(arguments);
    if (arguments.all_twins) return find_twins(arguments);
    return run_many(arguments);
}
