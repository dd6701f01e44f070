#include "common/texts/listed_rows.hpp"

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

// Of the first rows: their number, and a hash of their ids, texts and columns.
std::string told_of(const TextTable& texts, std::uint64_t rows) {
    XXH64_hash_t hash = 0;
    for (std::uint64_t number = 0; number < rows; ++number) {
        const std::uint64_t row = texts.hash(number);
        hash = XXH3_64bits_withSeed(&row, sizeof row, hash);
    }
    return fmt::format("{} {:016x}", rows, hash);
}

}  // namespace

void keep_listed_rows(const std::string& path, const TextTable& texts, bool readable_by_group) {
    const mode_t mode = readable_by_group ? 0640 : 0600;
    WholeFile file(path, mode, [&](int problem) {
        return SystemError("writing " + path, problem, "Give the run a directory that can be written",
                           ErrorKind::CannotWrite);
    });
    file.set_mode(mode);
    file.write(told_of(texts, texts.size()) + "\n");
    file.put_in_place();
}

void require_listed_rows(const std::string& path, const TextTable& texts) {
    std::error_code ignored;
    if (!std::filesystem::exists(path, ignored)) return;
    std::ifstream file(path);
    std::uint64_t rows = 0;
    std::string told;
    if (!std::getline(file, told) || std::from_chars(told.data(), told.data() + told.size(), rows).ec != std::errc())
        throw ProtocolError(path + " cannot be read", "Start the run again, with --resume");
    if (texts.size() < rows || told_of(texts, rows) != told)
        throw Error(ErrorKind::BadInput,
                    texts.description() + ": they are not the " + std::to_string(rows) +
                        " that the run began with: a row was changed, taken out or put in between",
                    "Put back what the run began with and give --resume, or begin another run with another --output");
}

}  // namespace offramp
