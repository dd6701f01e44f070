#pragma once

#include <array>
#include <atomic>
#include <cstddef>

namespace offramp::abi {

// The handles of one kind that are open, so that a call on any other pointer is refused before that is read. An address
// that a closed handle had may be a later one's.
//
// Owns: nothing of the handles. Thread: any, in a signal handler and in a forked child too: there are no locks, and
// each place is one word. Blocks: never. Errors: add() throws bad_alloc.
class LiveHandles {
  public:
    void add(const void* handle);
    // A handful of words are read: one look is the first place's as long as one handle is open.
    bool has(const void* handle) const noexcept;
    // True for one caller: who may free it.
    bool remove(const void* handle) noexcept;

  private:
    static constexpr std::size_t kPlaces = 32;

    // Never freed: another thread may be reading it.
    struct Places {
        std::array<std::atomic<const void*>, kPlaces> handles{};
        std::atomic<Places*> next{nullptr};
    };
    Places first_;
};

}  // namespace offramp::abi
