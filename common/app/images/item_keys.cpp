#include "common/app/images/item_keys.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <unordered_map>
#include <unordered_set>

#include "common/app/settings/processor_results.hpp"
#include "common/base/held_folder.hpp"
#include "common/base/utf8.hpp"
#include "common/wire/slab_header.hpp"

namespace offramp {
namespace {

constexpr std::size_t kLongestPart = 200;
constexpr std::size_t kRoomForNumber = 22;  // "-" and a 64-bit number
constexpr std::size_t kLongestKey = kMaxKeyBytes - kRoomForNumber;
constexpr std::array<std::string_view, 11> kExtensions{".jpg", ".jpeg", ".jpe",  ".jfif", ".png", ".apng",
                                                       ".tif", ".tiff", ".webp", ".bmp",  ".gif"};

// The length of the last part's extension; 0 if there is none, or if nothing would remain.
std::size_t image_extension_bytes(std::string_view name) {
    const std::string_view last = name.substr(name.find_last_of('/') + 1);
    const std::size_t dot = last.find_last_of('.');
    if (dot == std::string_view::npos || dot == 0) return 0;
    std::string extension(last.substr(dot));
    for (char& c : extension)
        if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    return std::find(kExtensions.begin(), kExtensions.end(), extension) == kExtensions.end() ? 0 : extension.size();
}

std::string clean_part(std::string_view part) {
    std::string clean;
    for (std::size_t at = 0; at < part.size();) {
        const std::size_t bytes = utf8_character_bytes(part.substr(at));
        if (bytes == 0 || !is_printable(part.substr(at, bytes)))
            clean += '_';
        else
            clean += part.substr(at, bytes);
        at += std::max<std::size_t>(bytes, 1);
    }
    if (clean.starts_with(kReservedPrefix)) clean.front() = '_';
    return cut_text(clean, kLongestPart);
}

std::string clean_key(std::string_view name) {
    std::vector<std::string> parts;
    for (std::size_t begin = 0; begin <= name.size();) {
        const std::size_t end = std::min(name.find('/', begin), name.size());
        const std::string_view part = name.substr(begin, end - begin);
        begin = end + 1;
        if (part.empty() || part == ".") continue;
        if (part == "..") {
            if (!parts.empty()) parts.pop_back();
            continue;
        }
        parts.push_back(clean_part(part));
    }
    std::string key;
    for (const std::string& part : parts) key += (key.empty() ? "" : "/") + part;
    return key.empty() ? "item" : cut_text(key, kLongestKey);
}

// Calls `take` with every name that an item must not have: its result could be a folder that contains `key`.
template <typename Take>
void for_each_name_in_the_way(std::string_view key, const Take& take) {
    std::size_t begin = 0;
    for (std::size_t end = key.find('/'); end != std::string_view::npos; begin = end + 1, end = key.find('/', begin)) {
        const std::string_view folder = key.substr(0, end);
        if (std::ranges::none_of(endings_of_items(),
                                 [&](const std::string& result) { return folder.ends_with(result); }))
            continue;
        for (std::size_t dot = folder.find('.', begin + 1); dot != std::string_view::npos;
             dot = folder.find('.', dot + 1))
            take(folder.substr(0, dot));
    }
}

// Numbers a key if a result file of the item would have the name of another item's folder. This is rare: a.jpg beside a
// folder a.png.
void keep_off_folders(std::vector<std::string>& keys, std::unordered_set<std::string>& taken) {
    std::unordered_set<std::string> in_the_way;
    for (const std::string& key : keys)
        for_each_name_in_the_way(key, [&](std::string_view name) { in_the_way.emplace(name); });
    if (in_the_way.empty()) return;
    for (std::string& key : keys) {
        if (!in_the_way.contains(key)) continue;
        const std::string met = key;
        for (std::uint64_t number = 2; in_the_way.contains(key) || !taken.insert(key).second; ++number)
            key = met + "-" + std::to_string(number);
    }
}

}  // namespace

bool has_image_extension(std::string_view name) { return image_extension_bytes(name) > 0; }

std::string without_image_extension(std::string_view name) {
    return std::string(name.substr(0, name.size() - image_extension_bytes(name)));
}

std::vector<std::string> make_item_keys(const std::vector<std::string>& names, NamesAre names_are) {
    std::vector<std::string> keys;
    keys.reserve(names.size());
    std::unordered_map<std::string, std::uint64_t> times;
    for (const std::string& name : names) {
        keys.push_back(clean_key(names_are == NamesAre::Ids ? name : without_image_extension(name)));
        ++times[keys.back()];
    }
    std::unordered_set<std::string> taken;
    taken.reserve(names.size());
    for (const std::string& key : keys)
        if (times[key] == 1) taken.insert(key);
    std::unordered_map<std::string, std::uint64_t> last_number;
    for (std::size_t i = 0; i < names.size(); ++i) {
        if (times[keys[i]] == 1) continue;
        const std::string whole = clean_key(names[i]);
        keys[i] = whole;
        if (taken.insert(whole).second) continue;
        std::uint64_t& number = last_number.try_emplace(whole, 1).first->second;
        do keys[i] = whole + "-" + std::to_string(++number);
        while (!taken.insert(keys[i]).second);
    }
    keep_off_folders(keys, taken);
    return keys;
}

}  // namespace offramp
