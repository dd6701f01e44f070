#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/error.hpp"
#include "producer/runner/sources/batch_source.hpp"

namespace offramp::test {

inline SystemError write_failure(int problem) {
    return SystemError("cannot write", problem, "", ErrorKind::CannotWrite);
}

// A source of items with these keys, which are never loaded. The item with the key "noted" has a note.
class Items final : public BatchSource {
  public:
    explicit Items(std::vector<std::string> keys) : keys_(std::move(keys)) {}
    std::string description() const override { return "items"; }
    std::uint64_t items() const override { return keys_.size(); }
    RowKind row_kind() const override { return RowKind::Nothing; }
    std::string_view key(std::uint64_t item) const override { return keys_[item]; }
    std::size_t max_key_bytes() const override { return 24; }
    std::string origin(std::uint64_t item) const override { return keys_[item]; }
    std::uint64_t note_hash(std::uint64_t item) const override { return keys_[item] == "noted" ? note : 0; }
    std::span<const std::int64_t> shape(std::uint64_t item) const override {
        return shapes.empty() ? std::span<const std::int64_t>() : shapes[item];
    }
    void load(std::uint64_t, std::span<std::byte>) override {}

    std::uint64_t note = 1;
    std::vector<std::vector<std::int64_t>> shapes{};

  private:
    std::vector<std::string> keys_;
};

// This many items, known only by number.
class Numbered : public BatchSource {
  public:
    explicit Numbered(std::uint64_t items) : items_(items) {}
    std::string description() const override { return "numbered"; }
    std::uint64_t items() const override { return items_; }
    RowKind row_kind() const override { return RowKind::Nothing; }
    std::string_view key(std::uint64_t) const override { return ""; }
    std::size_t max_key_bytes() const override { return 0; }
    std::string origin(std::uint64_t) const override { return ""; }
    void load(std::uint64_t, std::span<std::byte>) override {}

  private:
    std::uint64_t items_;
};

}  // namespace offramp::test
