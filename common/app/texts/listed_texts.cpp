#include "common/app/texts/listed_texts.hpp"

#include <utility>

#include "common/app/images/unreadable_item.hpp"

namespace offramp {

void ListedTexts::keep(TextListing&& listing) {
    keys_ = std::move(listing.keys);
    hashes_ = std::move(listing.hashes);
}

std::string ListedTexts::text(std::uint64_t number) const {
    std::string text = whole_text(number);
    if (text.size() > longest_)
        throw UnreadableItem("its text is longer than " + std::to_string(longest_ >> 20U) +
                             " MiB: " + std::to_string(text.size()) + " bytes" +
                             (longest_ == kLongestText ? "; --chunk-tokens cuts longer ones" : ""));
    return text;
}

}  // namespace offramp
