#pragma once

#include <unistd.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>

#include <offramp.h>
#include "common/abi/guarded.hpp"

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

// The error text for a call whose handle is invalid.
struct HandleTexts {
    const char* null;
    const char* not_open;
    const char* other_process;
};

// guarded(), on a handle that may be null, closed, of another kind, or another process's: `open` are those of its kind.
template <typename Handle>
std::int32_t guarded_on(Handle* handle, const LiveHandles& open, const HandleTexts& texts, offramp_error* error,
                        const std::function<std::int32_t()>& body) noexcept {
    if (handle == nullptr) return refused(error, OFFRAMP_BAD_ARGUMENT, texts.null);
    if (!open.has(handle)) return refused(error, OFFRAMP_BAD_ARGUMENT, texts.not_open);
    if (handle->process_id != ::getpid()) return refused(error, OFFRAMP_WRONG_PROCESS, texts.other_process);
    return guarded(error, body);
}

}  // namespace offramp::abi
