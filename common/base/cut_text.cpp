#include "common/base/cut_text.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <string_view>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "common/base/utf8.hpp"

namespace offramp {

std::string cut_text(const std::string& text, std::size_t limit) {
    if (text.size() <= limit) return text;
    std::array<char, 18> hash{};
    std::snprintf(hash.data(), hash.size(), "-%016llx",
                  static_cast<unsigned long long>(XXH3_64bits(text.data(), text.size())));
    const std::size_t room = limit - (hash.size() - 1);
    std::size_t kept = 0;
    while (true) {  // whole characters only
        const std::size_t bytes = std::max<std::size_t>(1, utf8_character_bytes(std::string_view(text).substr(kept)));
        if (kept + bytes > room) break;
        kept += bytes;
    }
    return text.substr(0, kept) + hash.data();
}

}  // namespace offramp
