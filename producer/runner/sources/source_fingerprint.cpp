#include "producer/runner/sources/source_fingerprint.hpp"

#include <spdlog/fmt/fmt.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace offramp {

namespace {

std::uint64_t hash_of_first(const BatchSource& source, std::uint64_t items) {
    XXH64_hash_t hash = XXH3_64bits(&items, sizeof items);
    // Items without keys are named by their numbers.
    if (source.max_key_bytes() > 0)
        for (std::uint64_t item = 0; item < items; ++item) {
            const std::string_view key = source.key(item);
            hash = XXH3_64bits_withSeed(key.data(), key.size(), hash);
        }
    for (std::uint64_t item = 0; item < (source.has_notes() ? items : 0); ++item)
        if (const std::uint64_t note = source.note_hash(item); note != 0)
            hash = XXH3_64bits_withSeed(&note, sizeof note, hash ^ item);
    return hash;
}

}  // namespace

std::uint64_t source_hash(const BatchSource& source) { return hash_of_first(source, source.items()); }

std::string source_fingerprint(const BatchSource& source) { return source_fingerprint(source, source.items()); }

std::string source_fingerprint(const BatchSource& source, std::uint64_t items) {
    return fmt::format("{:016x}", hash_of_first(source, items));
}

std::vector<std::uint64_t> hashes_of_items(const BatchSource& source) {
    std::vector<std::uint64_t> hashes;
    if (source.max_key_bytes() == 0) return hashes;
    hashes.reserve(source.items());
    for (std::uint64_t item = 0; item < source.items(); ++item) {
        const std::string_view key = source.key(item);
        hashes.push_back(XXH3_64bits_withSeed(key.data(), key.size(), source.has_notes() ? source.note_hash(item) : 0));
    }
    return hashes;
}

}  // namespace offramp
