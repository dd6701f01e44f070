#include "common/app/images/list_index.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <span>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "common/base/error.hpp"

namespace offramp {
namespace {

struct Header {
    std::array<char, 8> magic{'o', 'f', 'f', 'r', 'l', 'i', 's', 't'};
    std::uint64_t version = ListIndex::kVersion;
    ListFacts facts;
};
constexpr std::size_t kSeal = sizeof(std::uint64_t);
static_assert(sizeof(Header) == 72 && sizeof(ListPart) == 24);
static_assert(std::endian::native == std::endian::little, "numbers are written as they are in memory");

[[noreturn]] void refuse(const std::string& why) { throw Error(ErrorKind::BadInput, why); }

struct stat facts_of(const std::string& path) {
    struct stat found {};
    if (::stat(path.c_str(), &found) != 0) refuse(path + " cannot be read: " + std::strerror(errno));
    return found;
}

std::uint64_t changed_ns(const struct stat& file) {
    return static_cast<std::uint64_t>(file.st_mtim.tv_sec) * 1'000'000'000 +
           static_cast<std::uint64_t>(file.st_mtim.tv_nsec);
}

std::uint64_t hash_of(std::span<const std::byte> bytes) { return XXH3_64bits(bytes.data(), bytes.size()); }

// A damaged file with a matching seal must not make a shard read elsewhere.
bool is_consistent(const ListIndex& index) {
    if (index.items == 0 || index.parts.empty() || index.parts.front().first_item != 0) return false;
    if (index.parts.back().offset > index.list_bytes || index.parts.back().first_item > index.items) return false;
    return std::ranges::is_sorted(index.parts, {}, &ListPart::offset) &&
           std::ranges::is_sorted(index.parts, {}, &ListPart::first_item);
}

}  // namespace

void ListIndex::describe(const std::string& list, const std::string& folder, Owner owner) {
    const struct stat file = facts_of(list);
    list_bytes = static_cast<std::uint64_t>(file.st_size);
    list_changed_ns = owner == Owner::User ? changed_ns(file) : 0;
    folder_hash = hash_of(std::as_bytes(std::span(folder)));
}

void ListIndex::write(WholeFile& file) const {
    const Header header{.facts = *this};
    std::vector<std::byte> bytes(sizeof header + parts.size() * sizeof(ListPart));
    std::memcpy(bytes.data(), &header, sizeof header);
    std::ranges::copy(std::as_bytes(std::span(parts)), bytes.begin() + sizeof header);
    const std::uint64_t seal = hash_of(bytes);
    file.write(bytes);
    file.write(std::as_bytes(std::span(&seal, 1)));
}

std::shared_ptr<const ListIndex> ListIndex::read(const std::string& path, const std::string& list,
                                                 const std::string& folder, Owner owner) {
    const RegularFile file(path);
    std::vector<std::byte> bytes(file.size());
    Header header;
    std::uint64_t seal = 0;
    if (bytes.size() < sizeof header + kSeal || (bytes.size() - sizeof header - kSeal) % sizeof(ListPart) != 0 ||
        file.read_at(0, bytes) != bytes.size())
        refuse("it is truncated");
    std::memcpy(&header, bytes.data(), sizeof header);
    std::memcpy(&seal, bytes.data() + bytes.size() - kSeal, kSeal);
    bytes.resize(bytes.size() - kSeal);
    if (header.magic != Header().magic || hash_of(bytes) != seal) refuse("it is damaged");
    if (header.version != kVersion)
        refuse("it has version " + std::to_string(header.version) + ", and this program reads version " +
               std::to_string(kVersion));
    auto index = std::make_shared<ListIndex>();
    index->describe(list, folder, owner);
    if (index->list_bytes != header.facts.list_bytes || index->list_changed_ns != header.facts.list_changed_ns ||
        index->folder_hash != header.facts.folder_hash)
        refuse("the list has changed since, or was moved");
    static_cast<ListFacts&>(*index) = header.facts;
    index->parts.resize((bytes.size() - sizeof header) / sizeof(ListPart));
    std::ranges::copy(std::span(bytes).subspan(sizeof header), std::as_writable_bytes(std::span(index->parts)).begin());
    if (!is_consistent(*index)) refuse("it is damaged");
    index->items_file = items_path_for(std::filesystem::path(path).replace_extension().string());
    if (static_cast<std::uint64_t>(facts_of(index->items_file).st_size) != index->items_file_bytes)
        refuse(index->items_file + " is truncated");
    return index;
}

}  // namespace offramp
