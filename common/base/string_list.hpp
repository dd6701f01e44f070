#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <iterator>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

namespace offramp {

// A list of strings for many millions of them: 9 bytes beside each string's own, and no allocation for each. Strings
// stay in place, so that a view of one is valid as long as the list, also after a move. Thread: reading from any.
class StringList {
  public:
    StringList() = default;
    StringList(std::initializer_list<std::string_view> texts) {
        for (const std::string_view text : texts) push_back(text);
    }

    std::size_t size() const { return texts_.size(); }
    bool empty() const { return texts_.empty(); }
    std::string_view operator[](std::size_t index) const { return text_at(texts_[index]); }

    void push_back(std::string_view text) {
        std::size_t length = text.size();
        char* const begin = place(kMostLengthBytes + length);
        char* at = begin;
        for (; length >= 0x80; length >>= 7) *at++ = static_cast<char>(0x80 | (length & 0x7f));
        *at++ = static_cast<char>(length);
        if (!text.empty()) std::memcpy(at, text.data(), text.size());
        used_ += static_cast<std::size_t>(at - begin) + text.size();
        texts_.push_back(begin);
    }

    // Room for texts of together this many bytes, one length byte included for each, in one block.
    void reserve_bytes(std::size_t bytes) { place(bytes + kMostLengthBytes); }

    // Room for this many texts: a list that grows copies its addresses, and may keep the memory of the copies.
    void reserve(std::size_t texts) { texts_.reserve(texts); }

    // Moves the other's texts, which stay in place, behind these.
    void append(StringList&& other) {
        if (blocks_.empty()) {
            block_bytes_ = other.block_bytes_;
            used_ = other.used_;
        }
        texts_.insert(texts_.end(), other.texts_.begin(), other.texts_.end());
        // The last block stays the last: it has room.
        blocks_.insert(blocks_.empty() ? blocks_.end() : blocks_.end() - 1,
                       std::make_move_iterator(other.blocks_.begin()), std::make_move_iterator(other.blocks_.end()));
        other = {};
    }

    // Bytewise, ascending.
    void sort() {
        std::sort(texts_.begin(), texts_.end(),
                  [](const char* left, const char* right) { return text_at(left) < text_at(right); });
    }

  private:
    static constexpr std::size_t kBlockBytes = std::size_t{1} << 20;
    static constexpr std::size_t kMostLengthBytes = 10;

    // The length, 7 bits a byte, the lowest first, precedes a text.
    static std::string_view text_at(const char* at) {
        std::size_t length = 0;
        for (unsigned shift = 0;; shift += 7) {
            const auto byte = static_cast<unsigned char>(*at++);
            length |= static_cast<std::size_t>(byte & 0x7f) << shift;
            if (byte < 0x80) return {at, length};
        }
    }

    char* place(std::size_t bytes) {
        if (blocks_.empty() || block_bytes_ - used_ < bytes) {
            block_bytes_ = std::max(kBlockBytes, bytes);
            blocks_.push_back(std::make_unique_for_overwrite<char[]>(block_bytes_));
            used_ = 0;
        }
        return blocks_.back().get() + used_;
    }

    std::vector<std::unique_ptr<char[]>> blocks_;
    std::size_t block_bytes_ = 0;  // of the last block
    std::size_t used_ = 0;         // of its bytes
    std::vector<const char*> texts_;
};

}  // namespace offramp
