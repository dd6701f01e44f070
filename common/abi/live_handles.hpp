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

// The open handles of one kind, so that a call on any other pointer is refused without reading it. A later handle may
// have the address of a closed handle.
//
// Owns: no handles. Thread: any, also in a signal handler and in a forked child: there are no locks, and each entry is
// one word. Blocks: never. Errors: add() throws bad_alloc.
class LiveHandles {
  public:
    void add(const void* handle);
    // Reads a few words; with one open handle, only the first entry.
    bool has(const void* handle) const noexcept;
    // Returns true to exactly one caller, who may free the handle.
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

// Error texts for calls with an invalid handle.
struct HandleTexts {
    const char* null;
    const char* not_open;
    const char* other_process;
};

// guarded() for a handle that may be null, closed, of another kind, or of another process. `open`: the open handles of
// the right kind.
template <typename Handle>
std::int32_t guarded_on(Handle* handle, const LiveHandles& open, const HandleTexts& texts, offramp_error* error,
                        const std::function<std::int32_t()>& body) noexcept {
    if (handle == nullptr) return refused(error, OFFRAMP_BAD_ARGUMENT, texts.null);
    if (!open.has(handle)) return refused(error, OFFRAMP_BAD_ARGUMENT, texts.not_open);
    if (handle->process_id != ::getpid()) return refused(error, OFFRAMP_WRONG_PROCESS, texts.other_process);
    return guarded(error, body);
}

}  // namespace offramp::abi
