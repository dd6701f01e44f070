#include "consumer/processors/raw/row_chunks.hpp"

#if defined(__x86_64__)
#include <xxh_x86dispatch.h>  // replaces the hash functions of <xxhash.h> by versions that choose SSE2, AVX2 or AVX-512
#else
#include <xxhash.h>
#endif

#include <new>

#include "common/base/error.hpp"

namespace offramp {

struct RowHash::State {
    XXH3_state_t* xxh = XXH3_createState();
};

RowHash::RowHash() : state_(std::make_unique<State>()) {
    if (state_->xxh == nullptr) throw std::bad_alloc();
}

RowHash::~RowHash() { XXH3_freeState(state_->xxh); }

std::uint64_t RowHash::of(std::span<const std::byte> bytes, const Progress& progress) {
    if (bytes.size() <= kProgressBytes) {
        const std::uint64_t hash = XXH3_64bits(bytes.data(), bytes.size());
        progress();
        return hash;
    }
    expect(XXH3_64bits_reset(state_->xxh) == XXH_OK, "a hash state can be reset");
    in_chunks(bytes, progress, [this](std::span<const std::byte> chunk) {
        expect(XXH3_64bits_update(state_->xxh, chunk.data(), chunk.size()) == XXH_OK, "a hash state takes bytes");
    });
    return XXH3_64bits_digest(state_->xxh);
}

}  // namespace offramp
