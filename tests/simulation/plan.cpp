#include "tests/simulation/plan.hpp"

#include <array>

namespace offramp::simulation {
namespace {

struct Weight {
    Action action;
    std::string_view name;
    std::uint32_t weight;
};

// Deaths are rare enough that slabs make their way in between.
constexpr std::array<Weight, kActions> kWeights{{
    {Action::Fill, "fill", 20},
    {Action::Publish, "publish", 20},
    {Action::Drop, "drop", 1},
    {Action::WriteLetter, "write letter", 4},
    {Action::FillDisk, "fill disk", 1},
    {Action::EndInput, "end input", 6},
    {Action::StepBroker, "step broker", 60},
    {Action::Deliver, "deliver", 60},
    {Action::Turn, "turn", 50},
    {Action::Take, "take", 30},
    {Action::Progress, "progress", 5},
    {Action::Finish, "finish", 30},
    {Action::Wait, "wait", 12},
    {Action::Watch, "watch", 3},
    {Action::Sleep, "sleep", 1},
    {Action::Join, "join", 4},
    {Action::Leave, "leave", 1},
    {Action::Stop, "stop", 2},
    {Action::Continue, "continue", 5},
    {Action::KillConsumer, "kill consumer", 2},
    {Action::FuseConsumer, "fuse consumer", 3},
    {Action::NoticeDeath, "notice death", 6},
    {Action::KillProducer, "kill producer", 1},
    {Action::FuseProducer, "fuse producer", 2},
    {Action::Recover, "recover", 12},
}};

constexpr std::uint32_t kAllWeights = [] {
    std::uint32_t sum = 0;
    for (std::size_t i = 0; i < kActions; ++i) {
        if (kWeights[i].action != static_cast<Action>(i)) throw "in the order of the actions";
        sum += kWeights[i].weight;
    }
    return sum;
}();

constexpr std::array<std::string_view, kTwins> kTwinNames{"none",
                                                          "stopped-is-dead",
                                                          "death-unnoticed",
                                                          "reads-after-release",
                                                          "completes-unprocessed",
                                                          "loses-messages",
                                                          "swaps-messages",
                                                          "forgets-holdings",
                                                          "late-copy",
                                                          "loses-last-count",
                                                          "forgets-lost",
                                                          "holds-pool",
                                                          "lists-no-drop",
                                                          "spoils-letter",
                                                          "forgets-drop",
                                                          "forgets-lost-file",
                                                          "removes-read-file",
                                                          "keeps-generation",
                                                          "spoils-file"};

Action draw_action(Random& random) {
    std::uint32_t at = random.below(kAllWeights);
    for (const Weight& entry : kWeights) {
        if (at < entry.weight) return entry.action;
        at -= entry.weight;
    }
    return Action::StepBroker;
}

// One in `parts` drops its oldest, as many spill.
WhenFull draw_when_full(Random& random, std::uint32_t parts) {
    const std::uint32_t part = random.below(parts);
    return part == 0 ? WhenFull::DropOldest : part == 1 ? WhenFull::Spill : WhenFull::Wait;
}

}  // namespace

std::string_view name_of(Action action) { return kWeights[static_cast<std::size_t>(action)].name; }
std::string_view name_of(Twin twin) { return kTwinNames[static_cast<std::size_t>(twin)]; }

Plan Plan::from_seed(std::uint64_t seed) {
    Random random(seed);
    Plan plan;
    plan.setup.slabs = 1 + random.below(4);
    plan.setup.consumers = 1 + random.below(3);
    plan.setup.batches = 1 + random.below(random.one_in(2) ? 4 : 12);
    plan.setup.window = random.one_in(6) ? 8 : 1 + random.below(3);
    plan.setup.queue = random.one_in(4) ? 4 : 1024;
    plan.setup.max_failures = 1 + random.below(3);
    plan.setup.kill_stalled = random.one_in(4);
    plan.setup.inline_dispatch = random.one_in(2);
    plan.setup.begins_settled = !random.one_in(3);
    plan.setup.opens_late = random.one_in(2);
    plan.setup.abort_at_end = random.one_in(8);
    plan.setup.groups = random.one_in(6) ? kGroups : 1;
    if (plan.setup.groups == 1)
        plan.setup.when_full[0] = draw_when_full(random, 6);
    else
        for (const std::uint32_t required : {0, 1}) plan.setup.when_full[required] = draw_when_full(random, 3);
    plan.setup.keeps_letters = random.one_in(8);
    // The egress that waits announces itself whenever its thread runs: then a seed would not decide everything.
    if (plan.setup.makes_room()) plan.setup.inline_dispatch = false;
    if (plan.setup.keeps_letters) plan.setup.max_failures = 1;
    if (plan.setup.groups > 1) plan.setup.consumers = 1 + random.below(2);
    const std::uint32_t steps = 20 + random.below(plan.setup.groups > 1 ? 480 : 380);
    plan.steps.reserve(steps);
    for (std::uint32_t i = 0; i < steps; ++i)
        plan.steps.push_back({draw_action(random), random.below(1U << 16), random.below(1U << 30)});
    return plan;
}

}  // namespace offramp::simulation
