#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace offramp {

// Records every store into its memory, in the order in which the code under test makes them. The memory is read-only,
// so each store faults, runs alone (by the processor's trap flag), and its change is noted. A store that changes
// nothing is not seen.
//
// Owns: its memory, one page of 64-bit words. Also works in a child forked between construction and record(): the
// parent can read what the child recorded. Thread: one; one recorder at a time a process (it takes SIGSEGV and
// SIGTRAP). x86-64 only. Blocks: never.
class StoreRecorder {
  public:
    struct Store {
        std::size_t word = 0;
        std::uint64_t value = 0;
    };

    StoreRecorder();
    ~StoreRecorder();
    StoreRecorder(const StoreRecorder&) = delete;
    StoreRecorder& operator=(const StoreRecorder&) = delete;

    std::span<std::uint64_t> words();
    // Runs `steps` and records the stores; words() is writable before and after.
    void record(const std::function<void()>& steps);
    // The stores of the last record().
    std::vector<Store> stores() const;
};

}  // namespace offramp
