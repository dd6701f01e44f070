#include "common/app/images/item_keys.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <filesystem>
#include <span>
#include <system_error>
#include <thread>
#include <unordered_set>
#include <utility>
#include <vector>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "common/app/settings/processor_results.hpp"
#include "common/base/held_folder.hpp"
#include "common/base/utf8.hpp"
#include "common/wire/slab_header.hpp"

namespace offramp {
namespace {

constexpr std::size_t kLongestPart = 200;
constexpr std::size_t kRoomForNumber = 22;  // "-" and a 64-bit number
constexpr std::size_t kLongestKey = kMaxKeyBytes - kRoomForNumber;

// An extension's letters as a number, in lower case: it is compared for each of many million names.
constexpr std::size_t kLongestExtension = 5;
constexpr std::uint64_t in_lower_case(std::string_view extension) {
    std::uint64_t number = 0;
    for (const char c : extension)
        number = number << 8 | static_cast<unsigned char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
    return number;
}
constexpr std::array kExtensions{in_lower_case(".jpg"),  in_lower_case(".jpeg"), in_lower_case(".jpe"),
                                 in_lower_case(".jfif"), in_lower_case(".png"),  in_lower_case(".apng"),
                                 in_lower_case(".tif"),  in_lower_case(".tiff"), in_lower_case(".webp"),
                                 in_lower_case(".bmp"),  in_lower_case(".gif")};

// The length of the last part's extension; 0 if there is none, or if nothing would remain.
std::size_t image_extension_bytes(std::string_view name) {
    for (std::size_t bytes = 1; bytes <= kLongestExtension && bytes < name.size(); ++bytes) {
        const std::string_view end = name.substr(name.size() - bytes);
        if (end.front() == '/') return 0;
        if (end.front() != '.') continue;
        const bool is_whole_part = name[name.size() - bytes - 1] == '/';
        return is_whole_part || std::ranges::find(kExtensions, in_lower_case(end)) == kExtensions.end() ? 0 : bytes;
    }
    return 0;
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

// True only for names that clean_key() leaves as they are. Most names are of this kind, and are checked fast.
bool is_clean(std::string_view name) {
    if (name.empty() || name.size() > kLongestKey || name.front() == '/' || name.back() == '/') return false;
    for (std::size_t begin = 0, at = 0; at <= name.size(); ++at) {
        if (at < name.size() && name[at] != '/') {
            if (name[at] < ' ' || name[at] > '~') return false;
            continue;
        }
        const std::string_view part = name.substr(begin, at - begin);
        if (part.empty() || part == "." || part == ".." || part.size() > kLongestPart ||
            part.starts_with(kReservedPrefix))
            return false;
        begin = at + 1;
    }
    return true;
}

constexpr std::size_t kWorthAThread = 1'000'000;

void sort_concurrently(std::span<std::uint64_t> numbers, unsigned threads) {
    if (threads < 2 || numbers.size() < kWorthAThread) return std::sort(numbers.begin(), numbers.end());
    const auto middle = static_cast<std::ptrdiff_t>(numbers.size() / 2);
    std::nth_element(numbers.begin(), numbers.begin() + middle, numbers.end());
    const auto lower = [&] { sort_concurrently(numbers.first(numbers.size() / 2), threads / 2); };
    std::jthread thread;
    try {
        thread = std::jthread(lower);
    } catch (const std::system_error&) {
        lower();  // the process may start no more threads
    }
    sort_concurrently(numbers.subspan(numbers.size() / 2), threads / 2);
}

std::uint64_t key_hash(std::string_view key) { return XXH3_64bits(key.data(), key.size()); }

}  // namespace

bool has_image_extension(std::string_view name) { return image_extension_bytes(name) > 0; }

std::string_view without_image_extension(std::string_view name) {
    return name.substr(0, name.size() - image_extension_bytes(name));
}

// The keys that items have. Sorted hashes show which occur once: they need 8 bytes a key.
class ItemKeys::Taken {
  public:
    explicit Taken(const ItemKeys& keys) : hashes_(keys.size()) {
        for (std::uint64_t item = 0; item < keys.size(); ++item) hashes_[item] = key_hash(keys[item]);
        sort_concurrently(hashes_, std::thread::hardware_concurrency());
        std::unordered_set<std::uint64_t> repeated;
        for (std::size_t i = 1; i < hashes_.size(); ++i)
            if (hashes_[i] == hashes_[i - 1]) repeated.insert(hashes_[i]);
        for (std::uint64_t item = 0; !repeated.empty() && item < keys.size(); ++item)
            if (const std::string_view key = keys[item]; repeated.contains(key_hash(key)))
                items_of_[std::string(key)].push_back(item);
    }

    // The items whose keys occur more than once, ascending.
    std::vector<std::uint64_t> repeated() const {
        std::vector<std::uint64_t> repeated;
        for (const auto& [key, items] : items_of_)
            if (items.size() > 1) repeated.insert(repeated.end(), items.begin(), items.end());
        std::sort(repeated.begin(), repeated.end());
        return repeated;
    }

    // Returns false if an item has the key already, other than the repeated ones.
    bool take(const std::string& key) {
        if (std::binary_search(hashes_.begin(), hashes_.end(), key_hash(key))) {
            const auto found = items_of_.find(key);
            if (found == items_of_.end() || found->second.size() == 1) return false;
        }
        return given_.insert(key).second;
    }

  private:
    std::vector<std::uint64_t> hashes_;
    std::unordered_map<std::string, std::vector<std::uint64_t>> items_of_;  // of each key whose hash is repeated
    std::unordered_set<std::string> given_;
};

ItemKeys::ItemKeys(StringList names, NamesAre names_are, std::string root)
    : names_(std::move(names)), names_are_(names_are), root_(std::move(root)) {
    for (std::uint64_t item = 0; item < size(); ++item) {
        const std::string_view part = part_of(names_[item]);
        if (is_clean(part)) continue;
        std::string key = clean_key_of(names_[item], false);
        if (key != part) others_.emplace(item, std::move(key));
    }
    Taken taken(*this);
    number_equal_keys(taken);
    keep_off_folders(taken);
}

std::string_view ItemKeys::operator[](std::uint64_t item) const {
    if (!others_.empty())
        if (const auto found = others_.find(item); found != others_.end()) return found->second;
    return part_of(names_[item]);
}

// The part of a name that is its key, if the name is an ordinary one.
std::string_view ItemKeys::part_of(std::string_view name) const {
    if (name.starts_with('/'))
        name.remove_prefix(!root_.empty() && name.starts_with(root_) ? root_.size() : 1);
    else if (name.starts_with("./"))
        name.remove_prefix(2);
    else
        while (name.starts_with("../")) name.remove_prefix(3);
    return names_are_ == NamesAre::Ids ? name : without_image_extension(name);
}

std::string ItemKeys::clean_key_of(std::string_view name, bool with_extension) const {
    std::string shown(name);
    if (!root_.empty() && name.starts_with('/'))
        if (const std::string whole = std::filesystem::path(name).lexically_normal().string(); whole.starts_with(root_))
            shown = whole.substr(root_.size());
    return clean_key(with_extension || names_are_ == NamesAre::Ids ? shown : without_image_extension(shown));
}

void ItemKeys::number_equal_keys(Taken& taken) {
    std::unordered_map<std::string, std::uint64_t> last_number;
    for (const std::uint64_t item : taken.repeated()) {
        const std::string whole = clean_key_of(names_[item], true);
        std::string key = whole;
        if (!taken.take(key)) {
            std::uint64_t& number = last_number.try_emplace(whole, 1).first->second;
            do key = whole + "-" + std::to_string(++number);
            while (!taken.take(key));
        }
        others_.insert_or_assign(item, std::move(key));
    }
}

// Numbers a key if a result file of the item would have the name of another item's folder. This is rare: a.jpg beside a
// folder a.png.
void ItemKeys::keep_off_folders(Taken& taken) {
    std::unordered_set<std::string> in_the_way;
    std::string folder;
    for (std::uint64_t item = 0; item < size(); ++item) {
        const std::string_view key = (*this)[item];
        const std::string_view its_folder = key.substr(0, key.find_last_of('/') + 1);
        if (its_folder == folder) continue;
        folder = its_folder;
        for_each_name_in_the_way(folder, [&](std::string_view name) { in_the_way.emplace(name); });
    }
    for (std::uint64_t item = 0; !in_the_way.empty() && item < size(); ++item) {
        const std::string met((*this)[item]);
        std::string key = met;
        for (std::uint64_t number = 2; in_the_way.contains(key) || (key != met && !taken.take(key)); ++number)
            key = met + "-" + std::to_string(number);
        if (key != met) others_.insert_or_assign(item, std::move(key));
    }
}

}  // namespace offramp
