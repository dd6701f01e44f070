#include "common/app/texts/listed_rows.hpp"

#include <spdlog/fmt/fmt.h>

#include <charconv>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <system_error>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "common/base/error.hpp"
#include "common/base/whole_file.hpp"

namespace offramp {
namespace {

// Hash of the row's id, text and columns.
std::uint64_t hash_of(const TextTable& texts, std::uint64_t number) { return texts.hash(number); }

std::uint64_t hash_of(const PictureList& pictures, std::uint64_t number) {
    const std::string_view key = pictures.key(number);
    return XXH3_64bits_withSeed(key.data(), key.size(), pictures.listed_hash(number));
}

// The number of the first rows, and a hash of their contents.
template <class List>
std::string serialize(const List& list, std::uint64_t rows) {
    XXH64_hash_t hash = 0;
    for (std::uint64_t number = 0; number < rows; ++number) {
        const std::uint64_t row = hash_of(list, number);
        hash = XXH3_64bits_withSeed(&row, sizeof row, hash);
    }
    return fmt::format("{} {:016x}", rows, hash);
}

void keep(const std::string& path, const std::string& content, bool readable_by_group) {
    const mode_t mode = readable_by_group ? 0640 : 0600;
    WholeFile file(path, mode, [&](int problem) {
        return SystemError("writing " + path, problem, "Give the run a directory that this user may write to",
                           ErrorKind::CannotWrite);
    });
    file.set_mode(mode);
    file.write(content + "\n");
    file.put_in_place();
}

template <class List>
void require(const std::string& path, const List& list) {
    std::error_code ignored;
    if (!std::filesystem::exists(path, ignored)) return;
    std::ifstream file(path);
    std::uint64_t rows = 0;
    std::string content;
    if (!std::getline(file, content) ||
        std::from_chars(content.data(), content.data() + content.size(), rows).ec != std::errc())
        throw ProtocolError(path + " cannot be read, or is damaged", "Start the run again, with --resume");
    if (list.size() < rows || serialize(list, rows) != content)
        throw Error(ErrorKind::BadInput,
                    list.description() + ": the first " + std::to_string(rows) +
                        " rows are not those that the run began with: a row was changed, removed or inserted",
                    "Restore the original rows and give --resume, or begin another run with another --output");
}

}  // namespace

void keep_listed_rows(const std::string& path, const TextTable& texts, bool readable_by_group) {
    keep(path, serialize(texts, texts.size()), readable_by_group);
}

void keep_listed_rows(const std::string& path, const PictureList& pictures, bool readable_by_group) {
    keep(path, serialize(pictures, pictures.size()), readable_by_group);
}

void require_listed_rows(const std::string& path, const TextTable& texts) { require(path, texts); }

void require_listed_rows(const std::string& path, const PictureList& pictures) { require(path, pictures); }

}  // namespace offramp
