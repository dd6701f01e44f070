#include "common/app/images/item_keys.hpp"

#include <malloc.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <unordered_set>
#include <utility>
#include <vector>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "common/app/settings/processor_results.hpp"
#include "common/base/held_folder.hpp"
#include "common/base/in_parts.hpp"
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
    std::uint64_t number = 0;  // in_lower_case(end)
    for (std::size_t bytes = 1; bytes <= kLongestExtension && bytes < name.size(); ++bytes) {
        const std::string_view end = name.substr(name.size() - bytes);
        if (end.front() == '/') return 0;
        number |= in_lower_case(end.substr(0, 1)) << (8 * (bytes - 1));
        if (end.front() != '.') continue;
        const bool is_whole_part = name[name.size() - bytes - 1] == '/';
        return is_whole_part || std::ranges::find(kExtensions, number) == kExtensions.end() ? 0 : bytes;
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
    if (key.find('.') == std::string_view::npos) return;
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

// Finds a view in a set of strings.
struct HashOfText {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
};

std::uint64_t key_hash(std::string_view key) { return XXH3_64bits(key.data(), key.size()); }

}  // namespace

bool has_image_extension(std::string_view name) { return image_extension_bytes(name) > 0; }

std::string_view without_image_extension(std::string_view name) {
    return name.substr(0, name.size() - image_extension_bytes(name));
}

// The keys that items have. Sorted hashes show which occur once: they need 8 bytes a key.
class ItemKeys::Taken {
  public:
    explicit Taken(const ItemKeys& keys)
        : memory_(std::make_unique_for_overwrite<std::uint64_t[]>(keys.size())), hashes_(memory_.get(), keys.size()) {
        sort_hashes(keys);
        std::unordered_set<std::uint64_t> repeated;
        for (std::size_t i = 1; i < hashes_.size(); ++i)
            if (hashes_[i] == hashes_[i - 1]) repeated.insert(hashes_[i]);
        if (repeated.empty()) return;
        std::mutex mutex;
        in_parts(keys.size(), [&](std::uint64_t begin, std::uint64_t end) {
            for (std::uint64_t item = begin; item < end; ++item)
                if (const std::string_view key = keys[item]; repeated.contains(key_hash(key))) {
                    const std::lock_guard lock(mutex);
                    items_of_[std::string(key)].push_back(item);
                }
        });
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
    // Each range of hashes, some ten thousand, is put in its place and sorted by itself. Keys are hashed twice, once to
    // count each range's: a second list of hashes would take more memory than all else here.
    void sort_hashes(const ItemKeys& keys) {
        const int bits = std::clamp(static_cast<int>(std::bit_width(hashes_.size() >> 14U)), 0, 16);
        const auto range_of = [&](std::uint64_t hash) { return bits == 0 ? 0 : hash >> (64 - bits); };
        std::vector<std::atomic<std::uint64_t>> ends((std::size_t{1} << bits) + 1);
        const auto hash_keys = [&](std::uint64_t begin, std::uint64_t end, const auto& take) {
            std::vector<std::uint64_t> hashes(end - begin), counts(ends.size());
            for (std::uint64_t item = begin; item < end; ++item)
                ++counts[range_of(hashes[item - begin] = key_hash(keys[item]))];
            take(hashes, counts);
        };
        in_parts(keys.size(), [&](std::uint64_t begin, std::uint64_t end) {
            hash_keys(begin, end, [&](const auto&, const auto& counts) {
                for (std::size_t range = 0; range + 1 < ends.size(); ++range) ends[range + 1] += counts[range];
            });
        });
        for (std::size_t range = 1; range < ends.size(); ++range) ends[range] += ends[range - 1];
        // From here on ends[range] is where that range's next hash goes, and at last its end.
        in_parts(keys.size(), [&](std::uint64_t begin, std::uint64_t end) {
            hash_keys(begin, end, [&](const auto& hashes, auto& counts) {
                for (std::size_t range = 0; range + 1 < ends.size(); ++range)
                    counts[range] = ends[range].fetch_add(counts[range]);
                for (const std::uint64_t hash : hashes) hashes_[counts[range_of(hash)]++] = hash;
            });
        });
        in_parts(
            ends.size() - 1,
            [&](std::uint64_t range, std::uint64_t) {
                const std::uint64_t begin = range == 0 ? 0 : ends[range - 1].load();
                std::sort(hashes_.begin() + static_cast<std::ptrdiff_t>(begin),
                          hashes_.begin() + static_cast<std::ptrdiff_t>(ends[range].load()));
            },
            1);
    }

    std::unique_ptr<std::uint64_t[]> memory_;  // written first by the threads that fill it
    std::span<std::uint64_t> hashes_;
    std::unordered_map<std::string, std::vector<std::uint64_t>> items_of_;  // of each key whose hash is repeated
    std::unordered_set<std::string> given_;
};

ItemKeys::ItemKeys(StringList names, NamesAre names_are, std::string root)
    : names_(std::move(names)), names_are_(names_are), root_(std::move(root)) {
    make_unusual_keys();
    {
        Taken taken(*this);
        number_equal_keys(taken);
        keep_off_folders(taken);
    }
    // A program that keeps freed memory for its outputs would keep the hashes', too.
    if (size() > kItemsOfAPart) ::malloc_trim(0);
}

ItemKeys ItemKeys::of_part(StringList names, NamesAre names_are, std::string root) {
    ItemKeys keys;
    keys.names_ = std::move(names);
    keys.names_are_ = names_are;
    keys.root_ = std::move(root);
    keys.make_unusual_keys();
    return keys;
}

void ItemKeys::make_unusual_keys() {
    std::mutex mutex;
    in_parts(size(), [&](std::uint64_t begin, std::uint64_t end) {
        for (std::uint64_t item = begin; item < end; ++item) {
            const std::string_view part = part_of(names_[item]);
            if (is_clean(part)) continue;
            std::string key = clean_key_of(names_[item], false);
            if (key == part) continue;
            const std::lock_guard lock(mutex);
            others_.emplace(item, std::move(key));
        }
    });
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
        are_independent_ = false;
    }
}

// Numbers a key if a result file of the item would have the name of another item's folder. This is rare: a.jpg beside a
// folder a.png.
void ItemKeys::keep_off_folders(Taken& taken) {
    std::mutex mutex;
    std::unordered_set<std::string, HashOfText, std::equal_to<>> in_the_way;
    in_parts(size(), [&](std::uint64_t begin, std::uint64_t end) {
        std::string_view folder;
        for (std::uint64_t item = begin; item < end; ++item) {
            const std::string_view key = (*this)[item], its_folder = key.substr(0, key.find_last_of('/') + 1);
            if (its_folder == folder) continue;
            folder = its_folder;
            for_each_name_in_the_way(folder, [&](std::string_view name) {
                const std::lock_guard lock(mutex);
                in_the_way.emplace(name);
            });
        }
    });
    if (in_the_way.empty()) return;
    std::vector<std::uint64_t> met;
    in_parts(size(), [&](std::uint64_t begin, std::uint64_t end) {
        for (std::uint64_t item = begin; item < end; ++item) {
            if (!in_the_way.contains((*this)[item])) continue;
            const std::lock_guard lock(mutex);
            met.push_back(item);
        }
    });
    std::sort(met.begin(), met.end());
    for (const std::uint64_t item : met) {
        const std::string before((*this)[item]);
        std::string key = before;
        for (std::uint64_t number = 2; in_the_way.contains(key) || (key != before && !taken.take(key)); ++number)
            key = before + "-" + std::to_string(number);
        others_.insert_or_assign(item, std::move(key));
        are_independent_ = false;
    }
}

}  // namespace offramp
