#include "producer/runner/checkpoint/replaced_items.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <utility>

#include "common/base/error.hpp"
#include "common/base/reserved_prefix.hpp"
#include "common/base/way_to_write.hpp"
#include "common/base/whole_file.hpp"
#include "common/json/json_text.hpp"
#include "producer/runner/checkpoint/checkpoint_file.hpp"
#include "producer/runner/checkpoint/sealed_line.hpp"

namespace offramp {
namespace {

constexpr std::size_t kItemsALine = 4096;

std::string path_in(const std::string& folder) { return folder + "/" + std::string(kReservedPrefix) + "replaced"; }

SystemError cannot_note(const std::string& path, int problem) {
    return SystemError("writing " + path, problem,
                       way_to_write(problem, "Give --output a folder that this user may write to"),
                       ErrorKind::CannotWrite);
}

// Nothing: there is no such file, or it belongs to another checkpoint.
std::optional<ReplacedItems::ByFiles> items_in(const std::string& folder, const std::string& seal) {
    const auto text = text_of_own_file(path_in(folder), "the note of replaced items");
    if (!text) return std::nullopt;
    std::optional<ReplacedItems::ByFiles> items;
    std::optional<FilesOfRun> files;
    for (std::string_view rest = *text; !rest.empty();) {
        const std::size_t end = std::min(rest.find('\n'), rest.size());
        const nlohmann::json line = opened_line(rest.substr(0, end));
        rest.remove_prefix(std::min(end + 1, rest.size()));
        if (!line.is_object()) continue;
        if (line.contains("former") && line["former"] == seal) items.emplace();
        const auto text_of = [&](const char* key) {
            return line.contains(key) && line[key].is_string() ? line[key].get<std::string>() : std::string();
        };
        if (line.contains("processors")) files = FilesOfRun{text_of("processors"), text_of("write-path")};
        std::vector<std::uint64_t> hashes;
        if (items && line.contains("items") && line["items"].is_string() &&
            add_from_digits(line["items"].get_ref<const std::string&>(), hashes))
            (*items)[files].insert(hashes.begin(), hashes.end());
    }
    return items;
}

std::string first_line(const std::string& seal) { return sealed_line("\"former\":\"" + seal + "\"}"); }

std::string files_line(const FilesOfRun& files) {
    const nlohmann::json line = {{"processors", files.processors}, {"write-path", files.write_path}};
    return sealed_line(std::string_view(json_text(line)).substr(1));
}

std::string items_lines(std::span<const std::uint64_t> items) {
    std::string text;
    while (!items.empty()) {
        const auto now = items.first(std::min(items.size(), kItemsALine));
        text += sealed_line("\"items\":\"" + as_digits(now.data(), now.data() + now.size()) + "\"}");
        items = items.subspan(now.size());
    }
    return text;
}

}  // namespace

ReplacedItems::ReplacedItems(const std::string& folder, std::string seal, FilesOfRun files, bool flush)
    : folder_(folder), path_(path_in(folder)), seal_(std::move(seal)), files_(std::move(files)), flush_(flush) {}

ReplacedItems::Hashes ReplacedItems::of(const std::string& folder, const std::string& seal) {
    Hashes all;
    for (const auto& [files, items] : by_files(folder, seal)) all.insert(items.begin(), items.end());
    return all;
}

ReplacedItems::ByFiles ReplacedItems::by_files(const std::string& folder, const std::string& seal) {
    return items_in(folder, seal).value_or(ByFiles());
}

bool ReplacedItems::counts(const std::string& folder, const std::string& seal) {
    return items_in(folder, seal).has_value();
}

void ReplacedItems::remove(const std::string& folder) {
    const std::string path = path_in(folder);
    if (::unlink(path.c_str()) != 0 && errno != ENOENT) throw cannot_note(path, errno);
}

void ReplacedItems::add(std::span<const std::uint64_t> hashes) {
    const std::lock_guard lock(mutex_);
    if (!file_) begin();
    const auto failure = [this](int problem) { return cannot_note(path_, problem); };
    const std::string lines = items_lines(hashes);
    try {
        write_all(file_.get(), std::as_bytes(std::span(lines)), failure);
        if (flush_ && ::fdatasync(file_.get()) != 0) throw failure(errno);
    } catch (...) {
        file_.reset();  // the next read ignores a torn line
        throw;
    }
}

// Includes the items of earlier runs: their replacements are still in place.
void ReplacedItems::begin() {
    std::string text = first_line(seal_);
    for (const auto& [files, items] : by_files(folder_, seal_))  // those of any processor come first
        text += (files ? files_line(*files) : "") + items_lines(std::vector<std::uint64_t>(items.begin(), items.end()));
    WholeFile file(path_, 0644, [this](int problem) { return cannot_note(path_, problem); });
    file.write(text + files_line(files_));
    file.flush();  // it replaces earlier runs' notes
    file_ = file.put_in_place();
    if (flush_) file.flush_name();
}

}  // namespace offramp
