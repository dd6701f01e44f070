#include "producer/sources/source_fingerprint.hpp"

#include <spdlog/fmt/fmt.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace offramp {

std::uint64_t source_hash(const BatchSource& source) {
    const std::uint64_t items = source.items();
    XXH64_hash_t hash = XXH3_64bits(&items, sizeof items);
    // Without keys of its own a source's items are named by their numbers.
    if (source.max_key_bytes() > 0)
        for (std::uint64_t item = 0; item < items; ++item) {
            const std::string_view key = source.key(item);
            hash = XXH3_64bits_withSeed(key.data(), key.size(), hash);
        }
    for (std::uint64_t item = 0; item < (source.has_notes() ? items : 0); ++item)
        if (const std::uint64_t note = source.note_hash(item); note != 0) hash = XXH3_64bits_withSeed(&note, sizeof note, hash ^ item);
    return hash;
}

std::string source_fingerprint(const BatchSource& source) { return fmt::format("{:016x}", source_hash(source)); }

}  // namespace offramp
