#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/error.hpp"

namespace offramp {

// Finds the strings of a numbered list by their text, for many millions of them: it needs 11 to 22 bytes for each, and
// no copy of the text. `text_of(number)` gives that of each added number, always the same. Thread: find() from any.
class StringIndex {
  public:
    // Room for this many, so that adding them moves none. Call it before the first add().
    void reserve(std::size_t strings) {
        expect(count_ == 0, "room is made before the first string");
        if (room_for(strings) > slots_.size()) slots_.assign(room_for(strings), kFree);
    }

    // The number with this text, if it was added.
    template <class TextOf>
    std::optional<std::uint64_t> find(std::string_view text, const TextOf& text_of) const {
        if (slots_.empty()) return std::nullopt;
        const std::uint64_t slot = slots_[slot_of(text, text_of)];
        return slot == kFree ? std::nullopt : std::optional(slot & kNumber);
    }

    // Adds a number below 2^48. Returns another one if that has the text, and adds nothing.
    template <class TextOf>
    std::optional<std::uint64_t> add(std::string_view text, std::uint64_t number, const TextOf& text_of) {
        if (room_for(count_ + 1) > slots_.size()) grow(text_of);
        std::uint64_t& slot = slots_[slot_of(text, text_of)];
        if (slot != kFree) return slot & kNumber;
        slot = mark_of(hash_of(text)) | number;
        ++count_;
        return std::nullopt;
    }

  private:
    static constexpr std::uint64_t kFree = ~std::uint64_t{0};
    static constexpr std::uint64_t kNumber = (std::uint64_t{1} << 48) - 1;

    static std::uint64_t hash_of(std::string_view text) { return std::hash<std::string_view>()(text); }
    // Most other texts are told apart by these bits, without a look at them.
    static std::uint64_t mark_of(std::uint64_t hash) { return hash & ~kNumber; }
    // At most three quarters are in use.
    static std::size_t room_for(std::size_t strings) {
        return std::bit_ceil(std::max<std::size_t>(16, strings + strings / 3 + 1));
    }

    // The slot of the text, or the free one for it.
    template <class TextOf>
    std::size_t slot_of(std::string_view text, const TextOf& text_of) const {
        const std::uint64_t hash = hash_of(text), mark = mark_of(hash);
        std::size_t at = hash & (slots_.size() - 1);
        while (slots_[at] != kFree && ((slots_[at] & ~kNumber) != mark || text_of(slots_[at] & kNumber) != text))
            at = (at + 1) & (slots_.size() - 1);
        return at;
    }

    template <class TextOf>
    void grow(const TextOf& text_of) {
        const std::vector<std::uint64_t> before =
            std::exchange(slots_, std::vector<std::uint64_t>(room_for(count_ + 1), kFree));
        for (const std::uint64_t slot : before)
            if (slot != kFree) slots_[slot_of(text_of(slot & kNumber), text_of)] = slot;
    }

    std::vector<std::uint64_t> slots_;  // a number and its mark, or kFree
    std::size_t count_ = 0;
};

}  // namespace offramp
