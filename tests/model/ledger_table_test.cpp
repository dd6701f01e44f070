// Lists SlabLedger's transitions of every reachable slab, store by store, and compares the list with transitions.txt.
// check.py compares the model's list with the same file, so neither can change alone.

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstdio>
#include <deque>
#include <fstream>
#include <functional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "producer/ledger/slab_ledger.hpp"
#include "tests/support/store_recorder.hpp"

namespace offramp {
namespace {

constexpr std::uint64_t kGeneration = 1;
constexpr std::uint32_t kConsumers = 2;

// One slab without its generation, and whether a live producer owns it.
struct Image {
    SlabState state = SlabState::Free;
    std::uint32_t attempt = 0;
    std::array<std::uint32_t, kConsumers> holders{};
    std::uint64_t failures = 0;
    bool owned = true;

    auto operator<=>(const Image&) const = default;
    // Beyond these limits only the numbers grow.
    bool is_listed() const { return attempt + failures <= 2; }
};

std::string dots(std::uint32_t attempt) { return attempt == 0 ? "." : std::to_string(attempt); }

std::string to_text(const Image& image) {
    return std::string(to_string(image.state)) + " " + std::to_string(image.attempt) + " [" + dots(image.holders[0]) +
           " " + dots(image.holders[1]) + "] " + std::to_string(image.failures);
}

struct Event {
    std::string name;
    std::function<void(SlabLedger&, const std::vector<ConsumerRef>&)> apply;
};

SlabTicket ticket_of(std::uint32_t attempt, std::uint64_t generation) {
    return {.epoch = 1, .slab = 0, .generation = generation, .attempt = attempt};
}

constexpr std::pair<ReleaseKind, const char*> kKinds[] = {{ReleaseKind::Completed, " completed"},
                                                          {ReleaseKind::Returned, " returned"},
                                                          {ReleaseKind::Failed, " failed"},
                                                          {ReleaseKind::Rejected, " failed"}};

// All calls of a ledger, valid or not.
std::vector<Event> all_events(const Image& image) {
    std::vector<Event> events{
        {"acquire", [](auto& ledger, auto&) { (void)ledger.acquire([](std::uint32_t) { return true; }); }},
        {"abandon", [](auto& ledger, auto&) { ledger.abandon(0); }},
        {"publish", [](auto& ledger, auto&) { ledger.publish(0); }},
        {"expire", [](auto& ledger, auto&) { ledger.expire(0); }},
        {"dead-letter", [](auto& ledger, auto&) { ledger.dead_letter(0); }},
        {"discard", [](auto& ledger, auto&) { ledger.discard(0); }},
        {"vacate", [](auto& ledger, auto&) { ledger.vacate(0); }},
    };
    for (std::uint32_t c = 0; c < kConsumers; ++c) {
        const std::string who = " " + std::to_string(c);
        const std::uint32_t held = image.holders[c];
        events.push_back({"lease" + who, [c](auto& ledger, auto& all) { ledger.lease(0, all[c]); }});
        events.push_back({"take-back" + who, [c, held](auto& ledger, auto& all) {
                              ledger.take_back(ticket_of(held, kGeneration), all[c]);
                          }});
        for (std::uint32_t attempt = 1; attempt <= 3; ++attempt)
            for (const auto& [kind, word] : kKinds)
                for (const std::uint64_t generation : {kGeneration, kGeneration + 1})
                    events.push_back({"release" + who + " " + std::to_string(attempt) + word,
                                      [=, kind = kind](auto& ledger, auto& all) {
                                          (void)ledger.release(all[c], ticket_of(attempt, generation), kind);
                                      }});
        events.push_back({"revoke" + who, [c](auto& ledger, auto& all) { (void)ledger.revoke(all[c], 0); }});
        if (held != 0)
            events.push_back({"revoke" + who + " counted", [c, held](auto& ledger, auto& all) {
                                  (void)ledger.revoke(all[c], WorkWord{0, held, kGeneration}.pack());
                              }});
    }
    return events;
}

class LedgerTable {
  public:
    LedgerTable() : entry_(*reinterpret_cast<SlabEntry*>(recorder_.words().data())) {}

    std::set<std::string> list() {
        visit({});
        while (!waiting_.empty()) {
            const Image image = waiting_.front();
            waiting_.pop_front();
            if (!image.owned) {
                list_row(image, {"adopt", {}});
                continue;
            }
            for (const Event& event : all_events(image)) list_row(image, event);
        }
        return rows_;
    }

  private:
    static constexpr std::size_t kWordIndex = offsetof(SlabEntry, word) / 8;
    static constexpr std::size_t kFailuresIndex = offsetof(SlabEntry, failures) / 8;
    static constexpr std::size_t kHoldersIndex = offsetof(SlabEntry, holders) / 8;

    void visit(const Image& image) {
        if (image.is_listed() && known_.insert(image).second) waiting_.push_back(image);
    }

    void list_row(const Image& before, const Event& event) {
        if (!happens(before, event)) return;
        Image image = before;
        std::string row;
        for (const StoreRecorder::Store& store : recorder_.stores()) {
            row += (row.empty() ? "" : "; ") + describe(image, store);
            image.owned = false;  // the producer died right after this store
            visit(image);
        }
        image.owned = true;
        visit(image);
        if (!row.empty()) rows_.insert(to_text(before) + " | " + event.name + " | " + row);
    }

    // In a separate process, because a forbidden call ends it. Returns false then.
    bool happens(const Image& image, const Event& event) {
        const pid_t child = ::fork();
        if (child == 0) {
            const rlimit no_core_file{0, 0};
            (void)::setrlimit(RLIMIT_CORE, &no_core_file);
            (void)std::freopen("/dev/null", "w", stderr);
            std::vector<LedgerConsumer> consumer_table(kConsumers);
            const SlabLedger::Memory memory{consumer_table, {&entry_, 1}};
            SlabLedger ledger = SlabLedger::format(memory, 1);
            std::vector<ConsumerRef> consumers;
            for (std::uint32_t c = 0; c < kConsumers; ++c) consumers.push_back(*ledger.admit(100 + c, 1, 0, c));
            entry_.word = SlabWord{image.state, image.attempt, kGeneration}.pack();
            entry_.failures = image.failures;
            for (std::uint32_t c = 0; c < kConsumers; ++c)
                entry_.holders[c] = HolderWord{image.holders[c] != 0, image.holders[c], consumers[c].consumer_index,
                                               consumers[c].session}
                                        .pack();
            recorder_.record([&] {
                if (event.apply)
                    event.apply(ledger, consumers);
                else
                    (void)SlabLedger::adopt(memory, 2);
            });
            ::_exit(0);
        }
        int status = 0;
        EXPECT_EQ(::waitpid(child, &status, 0), child);
        if (WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT) return false;
        EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << to_text(image) << " | " << event.name;
        return true;
    }

    // Describes the store and applies it to the image.
    static std::string describe(Image& image, const StoreRecorder::Store& store) {
        if (store.word == kWordIndex) {
            const SlabWord word = SlabWord::unpack(store.value);
            image.state = word.state;
            image.attempt = word.attempt;
            return std::string(to_string(word.state)) + " " + std::to_string(word.attempt) +
                   (word.generation == kGeneration ? "" : ", next generation");
        }
        if (store.word == kFailuresIndex) {
            image.failures = store.value;
            return "failures " + std::to_string(store.value);
        }
        // The owner of the word: from its content, or from its position if it is cleared.
        const std::size_t place = store.word - kHoldersIndex;
        const HolderWord holder = HolderWord::unpack(store.value);
        const std::size_t consumer = holder.used ? holder.consumer_index : place;
        if (place >= kMaxHolders || consumer >= kConsumers) return "a store outside of the known words";
        image.holders[consumer] = holder.used ? holder.attempt : 0;
        return "holder " + std::to_string(consumer) + " " + dots(image.holders[consumer]);
    }

    StoreRecorder recorder_;
    SlabEntry& entry_;
    std::set<Image> known_;
    std::deque<Image> waiting_;
    std::set<std::string> rows_;
};

TEST(LedgerTable, IsTheTableThatTheModelHas) {
    const std::set<std::string> rows = LedgerTable().list();
    std::ifstream file(OFFRAMP_TRANSITIONS);
    std::set<std::string> expected;
    for (std::string line; std::getline(file, line);)
        if (!line.empty() && line.front() != '#') expected.insert(line);
    ASSERT_FALSE(expected.empty()) << OFFRAMP_TRANSITIONS;
    std::string drift;
    for (const std::string& row : rows)
        if (!expected.contains(row)) drift += "only the code: " + row + "\n";
    for (const std::string& row : expected)
        if (!rows.contains(row)) drift += "not the code:  " + row + "\n";
    EXPECT_TRUE(drift.empty())
        << drift << "Bring tests/model/ledger.pml and slab_ledger.cpp into agreement, check that the "
        << "model still holds (tests/model/model.md), and rewrite transitions.txt: check.py table --write";
}

}  // namespace
}  // namespace offramp
