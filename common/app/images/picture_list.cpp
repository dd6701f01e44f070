#include "common/app/images/picture_list.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <istream>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "common/app/images/image_format.hpp"
#include "common/app/images/jsonl_pictures.hpp"
#include "common/app/images/tar_pictures.hpp"
#include "common/app/settings/parsed_values.hpp"
#include "common/app/settings/sections.hpp"
#include "common/base/error.hpp"
#include "common/base/files.hpp"
#include "common/base/in_parts.hpp"
#include "common/base/log.hpp"

namespace offramp {
namespace {

namespace fs = std::filesystem;

constexpr const char* kWanted =
    "Give --input a folder of pictures (.jpg, .png, .tif, .webp, .bmp, .gif), a text file with one path per line, or "
    "one picture";

[[noreturn]] void no_input(const std::string& input, const std::string& why, const std::string& hint = kWanted) {
    throw ConfigError("--input '" + printable(input) + "': " + why, hint, ErrorKind::NoInput);
}

// Walks a folder and visits each folder below it once: links may lead back, or to one folder in a million ways. Files
// of the tree itself come before files behind links, and links are followed in the order of their names, so that a
// folder's name does not depend on the disk's order.
class FolderWalk {
  public:
    FolderWalk(std::string root, const StillWanted& still_wanted)
        : root_(std::move(root)), still_wanted_(still_wanted) {}

    void walk_all() {
        walk(root_, "");
        while (!links_.empty()) {
            const auto link = links_.extract(links_.begin());
            walk(link.mapped(), link.key());
        }
    }

    StringList names;
    std::size_t other_files = 0;

  private:
    void walk(const fs::path& folder, const std::string& name) {
        if (still_wanted_) still_wanted_();
        struct stat status {};
        if (::stat(folder.c_str(), &status) != 0) return list_failed(name, errno);
        if (!visited_.emplace(status.st_dev, status.st_ino).second) return;
        std::error_code error;
        fs::directory_iterator entry(folder, error);
        if (error) return list_failed(name, error.value());
        for (; entry != fs::directory_iterator(); entry.increment(error)) {
            take(*entry, name);
            if (error) break;
        }
        if (error) list_failed(name, error.value());
    }

    void take(const fs::directory_entry& entry, const std::string& parent) {
        const std::string file = entry.path().filename().string();
        if (file.front() == '.') return;
        const std::string name = parent.empty() ? file : parent + "/" + file;
        std::error_code error;
        if (entry.is_directory(error) && entry.is_symlink(error))
            links_.emplace(name, entry.path());
        else if (entry.is_directory(error))
            walk(entry.path(), name);
        else if (has_image_extension(file))
            names.push_back(name);
        else
            ++other_files;
    }

    void list_failed(const std::string& name, int errno_value) {
        if (name.empty()) no_input(root_, std::string("cannot be listed: ") + std::strerror(errno_value));
        names.push_back(name);
    }

    std::string root_;
    const StillWanted& still_wanted_;
    std::set<std::pair<dev_t, ino_t>> visited_;
    std::map<std::string, fs::path> links_;  // links to folders, which are followed after the tree
};

FileList list_folder(const std::string& input, const StillWanted& still_wanted) {
    FolderWalk walk(input, still_wanted);
    walk.walk_all();
    if (walk.names.empty())
        no_input(input, "no image file in this folder (" + std::to_string(walk.other_files) + " other files)",
                 "Images are files that end in .jpg, .jpeg, .jpe, .jfif, .png, .apng, .tif, .tiff, .webp, .bmp or "
                 ".gif, in this folder or below it; arrays are files in this folder that end in .npy. Hidden files are "
                 "skipped");
    walk.names.sort();
    return {.description = std::to_string(walk.names.size()) + " files under " + printable(input),
            .root = input,
            .names = std::move(walk.names),
            .other_files = walk.other_files};
}

// The compression of a file with these first bytes; empty: none detected.
std::string packing_of(std::string_view front) {
    using namespace std::string_view_literals;
    constexpr std::pair<std::string_view, const char*> kPackings[] = {
        {"\x1f\x8b"sv, "gzip-compressed: unpack it (tar xzf FILE for a .tar.gz, gunzip FILE for others)"},
        {"PK\x03\x04"sv, "a zip archive, as .npz files are: unpack it (unzip FILE)"},
        {"\x28\xb5\x2f\xfd"sv, "zstd-compressed: unpack it (zstd -d FILE)"},
        {"\xfd"
         "7zXZ"sv,
         "xz-compressed: unpack it (xz -d FILE)"},
        {"BZh"sv, "bzip2-compressed: unpack it (bunzip2 FILE)"},
        {"7z\xbc\xaf"sv, "a 7z archive: unpack it"}};
    for (const auto& [magic, what] : kPackings)
        if (front.starts_with(magic)) return what;
    return {};
}

// Ends in "/"; empty if it cannot be determined.
std::string absolute_folder(const std::string& folder) {
    std::error_code error;
    const std::string whole = fs::absolute(folder, error).lexically_normal().string();
    if (error) return {};
    return whole.ends_with('/') ? whole : whole + "/";
}

std::string parent_folder(const std::string& file) {
    const std::string parent = fs::path(file).parent_path().string();
    return parent.empty() ? "." : parent;
}

std::string root_of(const std::string& input, const std::string& listed) {
    return listed.empty() ? parent_folder(input) : input;
}

std::string description_of_list(const std::string& input, std::uint64_t files) {
    return std::to_string(files) + " files listed in " + printable(input);
}

std::uint64_t hash_of_text(std::string_view text) { return XXH3_64bits(text.data(), text.size()); }

constexpr std::size_t kReadAtOnce = std::size_t{32} << 20, kParsedAtOnce = std::size_t{1} << 20;

using ParseNames = std::function<void(std::string_view lines, StringList& names)>;

struct NameReading {
    std::istream& file;
    std::uint64_t bytes;     // of the file, if known
    std::string_view front;  // the first text, which has been read
    std::uint64_t at;        // offset of `front`
    char end;                // ends a line; the last one maybe not
    ParseNames parse;
    std::vector<ListPart>* parts;  // null: not wanted
};

// The number of names in a list whose rest is like its beginning. Memory reserved for too many is not used.
std::size_t names_expected(std::uint64_t bytes, std::size_t read, std::size_t names) {
    const double expected = 1.02 * static_cast<double>(names) * static_cast<double>(bytes) / static_cast<double>(read);
    return static_cast<std::size_t>(std::min(expected, static_cast<double>(bytes) / 16));
}

// The names that `parse` finds. All cores parse one block after another: the whole text is never in memory.
StringList read_names(const NameReading& reading) {
    std::istream& file = reading.file;
    std::uint64_t at = reading.at;
    StringList names;
    std::size_t room = kReadAtOnce;
    auto text = std::make_unique_for_overwrite<char[]>(room);
    std::size_t filled = reading.front.copy(text.get(), room);
    while (true) {
        file.read(text.get() + filled, static_cast<std::streamsize>(room - filled));
        filled += static_cast<std::size_t>(file.gcount());
        const std::string_view read(text.get(), filled);
        const std::size_t whole = file ? read.rfind(reading.end) + 1 : filled;
        // Where the first line begins that does not begin before `offset`.
        const auto line_from = [&](std::size_t offset) {
            return offset == 0 || offset == whole ? offset
                                                  : std::min(read.find(reading.end, offset - 1), whole - 1) + 1;
        };
        std::vector<StringList> parts((whole + kParsedAtOnce - 1) / kParsedAtOnce);
        std::vector<ListPart> found(reading.parts == nullptr ? 0 : parts.size());
        in_parts(
            whole,
            [&](std::uint64_t from, std::uint64_t to) {
                const std::size_t begin = line_from(from), part = from / kParsedAtOnce;
                const std::string_view lines = read.substr(begin, line_from(to) - begin);
                reading.parse(lines, parts[part]);
                if (!found.empty()) found[part] = {.offset = at + begin, .first_item = 0, .hash = hash_of_text(lines)};
            },
            kParsedAtOnce);
        if (names.empty() && whole > 0 && reading.bytes > whole) {
            std::size_t now = 0;
            for (const StringList& part : parts) now += part.size();
            names.reserve(names_expected(reading.bytes, whole, now));
        }
        for (std::size_t part = 0; part < parts.size(); ++part) {
            if (!found.empty()) found[part].first_item = names.size();
            names.append(std::move(parts[part]));
        }
        if (!found.empty()) reading.parts->insert(reading.parts->end(), found.begin(), found.end());
        if (!file) return names;
        at += whole;
        filled -= whole;
        auto next = filled < room / 2 ? nullptr : std::make_unique_for_overwrite<char[]>(room *= 2);
        std::memmove(next ? next.get() : text.get(), text.get() + whole, filled);
        if (next) text = std::move(next);
    }
}

// Paths of a text file, one a line.
void parse_lines(std::string_view lines, StringList& names) {
    names.reserve_bytes(lines.size() + lines.size() / 128);  // a name of 128 bytes has a second length byte
    while (!lines.empty()) {
        const std::size_t end = std::min(lines.find('\n'), lines.size());
        std::string_view line = lines.substr(0, end);
        lines.remove_prefix(std::min(end + 1, lines.size()));
        if (line.ends_with('\r')) line.remove_suffix(1);
        if (line.starts_with('#') || line.find_first_not_of(" \t") == std::string_view::npos) continue;
        names.push_back(line);
    }
}

// Names that end in a zero byte; a torn one at the end is left out.
void parse_listed(std::string_view text, StringList& names) {
    names.reserve_bytes(text.size() + text.size() / 128);
    for (std::size_t end = text.find('\0'); end != std::string_view::npos; end = text.find('\0')) {
        names.push_back(text.substr(0, end));
        text.remove_prefix(end + 1);
    }
}

std::uint64_t bytes_if_known(const std::string& file) {
    std::error_code unknown;
    const std::uintmax_t bytes = fs::file_size(file, unknown);
    return unknown ? 0 : bytes;
}

FileList read_list(const std::string& input, std::ifstream& file, std::string_view front,
                   std::vector<ListPart>* parts) {
    if (const std::string packing = packing_of(front); !packing.empty())
        throw ConfigError("--input '" + printable(input) + "': the file is " + packing, kWanted, ErrorKind::BadInput);
    FileList list{.description = {}, .root = parent_folder(input), .names = {}};
    // A byte-order mark, as Windows' editors write it, is no part of a path.
    const std::size_t mark = front.starts_with("\xef\xbb\xbf") ? 3 : 0;
    const auto parse = [&](std::string_view lines, StringList& names) {
        if (lines.find('\0') != std::string_view::npos)
            throw ConfigError(
                "--input '" + printable(input) + "': neither an image nor a list of paths (it holds zero bytes)",
                kWanted, ErrorKind::BadInput);
        parse_lines(lines, names);
    };
    list.names = read_names({.file = file,
                             .bytes = bytes_if_known(input),
                             .front = front.substr(mark),
                             .at = mark,
                             .end = '\n',
                             .parse = parse,
                             .parts = parts});
    if (file.bad()) no_input(input, "the list cannot be read to its end");
    if (list.names.empty())
        no_input(input, "no path in this list file",
                 "Write one path per line; blank lines and lines that begin with # are ignored");
    list.description = description_of_list(input, list.names.size());
    return list;
}

ListIndex::Owner owner_of(const std::string& listed) {
    return listed.empty() ? ListIndex::Owner::User : ListIndex::Owner::Job;
}

std::string description_of_listed(const std::string& input, std::uint64_t files) {
    return std::to_string(files) + " files under " + printable(input) + ", as they were listed";
}

// The parts of the list in `file` that have items of `share`.
FileList read_parts(const RegularFile& file, const std::string& path, std::shared_ptr<const ListIndex> index,
                    ItemRange share, const ParseNames& parse) {
    const std::vector<ListPart>& parts = index->parts;
    const auto begin = std::ranges::upper_bound(parts, share.begin, {}, &ListPart::first_item) - 1;
    const auto end = std::ranges::lower_bound(begin, parts.end(), share.end, {}, &ListPart::first_item);
    std::vector<StringList> found(static_cast<std::size_t>(end - begin));
    in_parts(
        found.size(),
        [&](std::uint64_t number, std::uint64_t) {
            const auto part = begin + static_cast<std::ptrdiff_t>(number), next = part + 1;
            const bool is_last = next == parts.end();
            std::string text((is_last ? index->list_bytes : next->offset) - part->offset, '\0');
            text.resize(file.read_at(part->offset, std::as_writable_bytes(std::span(text))));
            parse(text, found[number]);
            if (hash_of_text(text) != part->hash ||
                part->first_item + found[number].size() != (is_last ? index->items : next->first_item))
                throw ConfigError("the list " + printable(path) + " has changed since the job began, from byte " +
                                      std::to_string(part->offset) + " on",
                                  "Restore it, or begin another job", ErrorKind::BadInput);
        },
        1);
    FileList list{.description = {}, .root = {}, .names = {}, .index = std::move(index), .first = begin->first_item};
    for (StringList& names : found) list.names.append(std::move(names));
    return list;
}

// Nothing if the share's index cannot be used.
std::optional<FileList> read_share(const std::string& input, const std::string& listed, const ListShare& share) {
    try {
        const std::string& path = listed.empty() ? input : listed;
        auto index = index_of_list(share.index, input, listed);
        const RegularFile file(path);
        const std::uint64_t items = index->items;
        const Shard::Range range = Shard::parse(share.shard).value_or(Shard()).of(items);
        if (range.begin == range.end) return std::nullopt;
        const std::uint64_t batch = std::max<std::uint64_t>(share.batch, 1);
        const ItemRange whole_batches{range.begin / batch * batch,
                                      std::min((range.end + batch - 1) / batch * batch, items)};
        FileList list =
            read_parts(file, path, std::move(index), whole_batches, listed.empty() ? parse_lines : parse_listed);
        list.root = root_of(input, listed);
        list.description = listed.empty() ? description_of_list(input, items) : description_of_listed(input, items);
        return list;
    } catch (const ConfigError&) {
        throw;
    } catch (const Error& problem) {
        spdlog::info("--input-index {}: {}; the whole list is read", printable(share.index), problem.what());
        return std::nullopt;
    }
}

}  // namespace

ListShare share_of_list(const InputSettings& config) {
    if (config.limit > 0 || config.tile > 0 || config.resize == "none") return {};
    return {config.input_index, config.shard, config.batch};
}

std::unique_ptr<PictureList> open_pictures(std::string_view source, const std::string& input,
                                           const StillWanted& still_wanted, const std::string& listed,
                                           const ListShare& share) {
    if (source == "jsonl") return std::make_unique<JsonlPictures>(input);
    if (source == "webdataset") return std::make_unique<TarPictures>(input, still_wanted);
    expect(source == "images", "it is asked first whether a source gives pictures");
    if (!share.index.empty() && !share.shard.empty())
        if (auto list = read_share(input, listed, share)) return std::make_unique<FilePictures>(std::move(*list));
    return std::make_unique<FilePictures>(listed.empty() ? list_image_files(input, still_wanted)
                                                         : read_listed_files(input, listed));
}

void describe_list(const std::string& input, const std::string& listed, ListIndex& index) {
    index.describe(listed.empty() ? input : listed, absolute_folder(root_of(input, listed)), owner_of(listed));
}

std::shared_ptr<const ListIndex> index_of_list(const std::string& path, const std::string& input,
                                               const std::string& listed) {
    return ListIndex::read(path, listed.empty() ? input : listed, absolute_folder(root_of(input, listed)),
                           owner_of(listed));
}

FileList list_image_files(const std::string& input, const StillWanted& still_wanted, std::vector<ListPart>* parts) {
    if (input.empty()) no_input(input, "the source images needs an input and none is given");
    std::error_code error;
    const fs::file_status status = fs::status(input, error);
    if (status.type() == fs::file_type::not_found) no_input(input, "no such file or folder");
    if (error) no_input(input, "cannot be accessed: " + error.message());
    if (fs::is_directory(status)) return list_folder(input, still_wanted);

    std::ifstream file(input, std::ios::binary);
    if (!file) no_input(input, std::string("cannot be opened: ") + std::strerror(errno));
    std::string front(kMagicBytes, '\0');
    file.read(front.data(), static_cast<std::streamsize>(front.size()));
    front.resize(static_cast<std::size_t>(file.gcount()));
    if (image_format(std::as_bytes(std::span(front))) != ImageFormat::Unknown)
        return {.description = "1 file, " + printable(input),
                .root = parent_folder(input),
                .names = {fs::path(input).filename().string()}};
    return read_list(input, file, front, parts);
}

std::string text_of_listed_files(const FileList& list) {
    std::string text = std::to_string(list.names.size()) + "\n";
    for (std::size_t i = 0; i < list.names.size(); ++i) text.append(list.names[i]).push_back('\0');
    return text;
}

FileList read_listed_files(const std::string& input, const std::string& listed, std::vector<ListPart>* parts) {
    std::ifstream file(listed, std::ios::binary);
    if (!file)
        throw ConfigError("--input-list '" + printable(listed) + "' cannot be opened: " + std::strerror(errno),
                          "`offramp job init` wrote this list: check that the job's folder exists", ErrorKind::NoInput);
    std::uint64_t count = 0;
    FileList list{.description = {}, .root = input, .names = {}};
    if (file >> count && file.get() == '\n')
        list.names = read_names({.file = file,
                                 .bytes = bytes_if_known(listed),
                                 .front = {},
                                 .at = static_cast<std::uint64_t>(file.tellg()),
                                 .end = '\0',
                                 .parse = parse_listed,
                                 .parts = parts});
    if (file.bad())
        throw ConfigError("--input-list '" + printable(listed) + "' cannot be read: " + std::strerror(errno),
                          "`offramp job init` wrote this list: check that the job's folder exists", ErrorKind::NoInput);
    if (list.names.empty() || list.names.size() != count)
        throw ConfigError("--input-list '" + printable(listed) +
                              "' is truncated, or is not the list of a job: it declares " + std::to_string(count) +
                              " files and has " + std::to_string(list.names.size()),
                          "Begin another job", ErrorKind::BadInput);
    list.description = description_of_listed(input, count);
    return list;
}

FilePictures::FilePictures(const std::string& input, const StillWanted& still_wanted)
    : FilePictures(list_image_files(input, still_wanted)) {}

FilePictures::FilePictures(FileList files)
    : description_(std::move(files.description)),
      root_(std::move(files.root)),
      other_files_(files.other_files),
      index_(std::move(files.index)),
      first_(files.first),
      keys_(index_ ? ItemKeys::of_part(std::move(files.names), NamesAre::Files, absolute_folder(root_))
                   : ItemKeys(std::move(files.names), NamesAre::Files, absolute_folder(root_))) {}

void FilePictures::refuse(std::uint64_t picture) const {
    throw Error(ErrorKind::Internal, "picture " + std::to_string(picture) +
                                         " was not read: this part of the list has " + std::to_string(keys_.size()) +
                                         " pictures from number " + std::to_string(first_) + " on");
}

std::string FilePictures::path(std::uint64_t picture) const {
    const std::string_view name = keys_.name(read(picture));
    if (root_.empty() || name.starts_with('/')) return std::string(name);
    return std::string(root_).append(root_.ends_with('/') ? "" : "/").append(name);
}

std::string FilePictures::origin(std::uint64_t picture) const { return printable(path(picture)); }

}  // namespace offramp
