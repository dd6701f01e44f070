#include "common/app/images/picture_stamps.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <fstream>
#include <iterator>
#include <span>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "common/base/error.hpp"
#include "common/base/files.hpp"

namespace offramp {
namespace {

constexpr std::string_view kMagic = "OFFRSTMP";

std::uint64_t hash_of(std::string_view key) { return XXH3_64bits(key.data(), key.size()); }

}  // namespace

std::uint64_t stamp_of(const PicturePlace& place) {
    struct stat facts {};
    if (::stat(place.path.c_str(), &facts) != 0) return 0;
    const std::array<std::uint64_t, 5> state{
        static_cast<std::uint64_t>(facts.st_size), static_cast<std::uint64_t>(facts.st_mtim.tv_sec),
        static_cast<std::uint64_t>(facts.st_mtim.tv_nsec), place.offset, place.bytes.value_or(0)};
    return std::max<std::uint64_t>(XXH3_64bits(state.data(), sizeof state), 1);
}

void PictureStamps::add(std::string_view key, std::uint64_t stamp) { entries_.push_back({hash_of(key), stamp}); }

std::uint64_t PictureStamps::of(std::string_view key) const {
    const std::uint64_t hash = hash_of(key);
    const auto found = std::ranges::lower_bound(entries_, hash, {}, &Entry::key_hash);
    return found == entries_.end() || found->key_hash != hash ? 0 : found->stamp;
}

void PictureStamps::keep(const std::string& path, bool readable_by_group) {
    std::ranges::sort(entries_);
    const mode_t mode = readable_by_group ? 0640 : 0600;
    WholeFile file(path, mode, [&](int problem) {
        return SystemError("writing " + path, problem, "Give the run a directory that this user may write to",
                           ErrorKind::CannotWrite);
    });
    file.set_mode(mode);
    file.write(kMagic);
    file.write(std::as_bytes(std::span(entries_)));
    file.put_in_place();
}

PictureStamps PictureStamps::kept(const std::string& path) {
    PictureStamps stamps;
    std::ifstream file(path, std::ios::binary);
    if (!file) return stamps;
    const std::string bytes{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
    if (!bytes.starts_with(kMagic) || (bytes.size() - kMagic.size()) % sizeof(Entry) != 0)
        throw ProtocolError(path + " is damaged", "Start the run again, with --resume");
    stamps.entries_.resize((bytes.size() - kMagic.size()) / sizeof(Entry));
    std::memcpy(stamps.entries_.data(), bytes.data() + kMagic.size(), bytes.size() - kMagic.size());
    return stamps;
}

}  // namespace offramp
