#include "common/app/program/next_place.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <random>
#include <system_error>

#include "common/base/error.hpp"
#include "common/base/remedy.hpp"
#include "common/base/reserved_prefix.hpp"
#include "common/base/unique_fd.hpp"
#include "common/base/way_to_write.hpp"
#include "common/base/whole_file.hpp"

namespace offramp {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kLongest = 32;
constexpr std::string_view kDigits = "0123456789abcdef";

std::string prefix() { return std::string(kReservedPrefix) + "next-"; }

std::string note_in(const std::string& output) { return output + "/" + std::string(kReservedPrefix) + "next"; }

SystemError cannot_note(const std::string& path, int problem) {
    return SystemError("writing " + path, problem, way_to_write(problem, remedy(Remedy::WritableOutput)),
                       ErrorKind::CannotWrite);
}

bool is_name(std::string_view name) {
    return !name.empty() && name.size() <= kLongest && name.find_first_not_of(kDigits) == std::string_view::npos;
}

}  // namespace

std::string next_place_of(const std::string& output) {
    const std::string path = note_in(output);
    const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
    if (!file && (errno == ENOENT || errno == ENOTDIR)) return {};
    std::array<char, kLongest + 2> text{};
    const ssize_t got = file ? ::read(file.get(), text.data(), text.size()) : -1;
    if (got < 0) throw SystemError("reading " + path, errno, "Make it readable for this user, or remove it");
    std::string_view name(text.data(), static_cast<std::size_t>(got));
    if (name.ends_with('\n')) name.remove_suffix(1);
    return std::string(checked_next_place(name, path));
}

void note_next_place(const std::string& output, std::string_view name) {
    const std::string path = note_in(output);
    if (name.empty()) {
        if (::unlink(path.c_str()) != 0 && errno != ENOENT && errno != ENOTDIR) throw cannot_note(path, errno);
        return;
    }
    WholeFile file(path, 0644, [&path](int problem) { return cannot_note(path, problem); });
    file.write(std::string(name) + "\n");
    file.flush();  // the only record of the place of results
    file.put_in_place();
}

std::string new_next_place() {
    std::random_device random;
    std::string name;
    for (int i = 0; i < 16; ++i) name += kDigits[random() % kDigits.size()];
    return name;
}

std::string_view checked_next_place(std::string_view name, const std::string& from) {
    if (!is_name(name))
        throw ConfigError(from + " does not name a folder of a run's results",
                          "Remove it, or " + remedy(Remedy::AnotherOutput));
    return name;
}

std::string folder_in(const std::string& folder, std::string_view next_place) {
    return next_place.empty() ? folder : folder + "/" + prefix() + std::string(next_place);
}

std::vector<std::string> next_places_in(const std::string& folder) {
    std::vector<std::string> names;
    std::error_code failure;
    for (fs::directory_iterator entry(folder, failure); !failure && entry != fs::directory_iterator();
         entry.increment(failure)) {
        const std::string file = entry->path().filename().string();
        if (!file.starts_with(prefix()) || !is_name(std::string_view(file).substr(prefix().size()))) continue;
        if (std::error_code unknown; entry->symlink_status(unknown).type() == fs::file_type::directory)
            names.push_back(file.substr(prefix().size()));
    }
    std::sort(names.begin(), names.end());
    return names;
}

}  // namespace offramp
