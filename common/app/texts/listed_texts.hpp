#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/app/texts/text_columns.hpp"
#include "common/app/texts/text_table.hpp"

namespace offramp {

// Common base of tables of texts: each row's key, and hashes that detect changes since the listing.
class ListedTexts : public TextTable {
  public:
    std::uint64_t size() const override { return keys_.size(); }
    std::string_view key(std::uint64_t number) const override { return keys_[number]; }
    std::string text(std::uint64_t number) const override;
    std::uint64_t text_bytes(std::uint64_t number) const override { return hashes_[number].text_bytes; }
    std::uint64_t text_characters(std::uint64_t number) const override { return hashes_[number].text_characters; }
    std::uint64_t hash(std::uint64_t number) const override { return hashes_[number].content; }

  protected:
    // Errors: those of TextColumns.
    explicit ListedTexts(const InputSettings& config)
        : input_(config.input), chosen_(config), longest_(config.chunk_tokens > 0 ? kLongestToCut : kLongestText) {}
    // The listing has ended. Once.
    void keep(TextListing&& listing);
    const std::string& input() const { return input_; }
    const TextColumns& chosen() const { return chosen_; }
    const RowHashes& listed(std::uint64_t number) const { return hashes_[number]; }
    // The text, whatever its length. Errors: UnreadableItem.
    virtual std::string whole_text(std::uint64_t number) const = 0;

  private:
    std::string input_;
    TextColumns chosen_;
    std::uint64_t longest_;  // text, in bytes
    std::vector<std::string> keys_;
    std::vector<RowHashes> hashes_;
};

}  // namespace offramp
