#include "common/app/images/tar_pictures.hpp"

#include <algorithm>
#include <array>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <span>
#include <utility>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "common/app/images/item_keys.hpp"
#include "common/app/images/jsonl_pictures.hpp"
#include "common/app/images/tar_index.hpp"
#include "common/app/images/unreadable_item.hpp"
#include "common/base/error.hpp"
#include "common/base/files.hpp"
#include "common/json/json_text.hpp"

namespace offramp {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::uint64_t kMostBytesOfAPart = std::uint64_t{16} << 20;
constexpr std::string_view kEnding = ".tar";

[[noreturn]] void refuse_listing(const std::string& input, const std::string& why,
                                 ErrorKind code = ErrorKind::NoInput) {
    throw ConfigError("--input '" + printable(input) + "': " + why,
                      "Give --input a .tar file, or a folder of .tar files", code);
}

// Names relative to the folder, sorted. Errors: ConfigError: a folder that cannot be listed could hide shards.
std::vector<std::string> shards_in(const std::string& folder) {
    std::vector<std::string> names;
    std::error_code error;
    for (fs::recursive_directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
        const std::string file = entry->path().filename().string();
        std::error_code ignored;
        if (file.starts_with('.')) {
            if (entry->is_directory(ignored)) entry.disable_recursion_pending();
        } else if (file.ends_with(kEnding) && !entry->is_directory(ignored)) {
            names.push_back(entry->path().lexically_relative(folder).string());
        }
    }
    if (error) refuse_listing(folder, "cannot be listed: " + error.message());
    if (names.empty()) refuse_listing(folder, "no .tar file in this folder");
    std::sort(names.begin(), names.end());
    return names;
}

std::size_t read_at(const RegularFile& shard, std::uint64_t offset, std::span<char> to) {
    return or_unreadable([&] { return shard.read_at(offset, std::as_writable_bytes(to)); });
}

RegularFile open_shard(const std::string& path) {
    return or_unreadable([&] { return RegularFile(path); });
}

// Splits a member's name into sample and rest, like WebDataset; an empty sample: the member belongs to no sample.
std::pair<std::string, std::string> parted(std::string_view name) {
    while (name.starts_with("./")) name.remove_prefix(2);
    const std::size_t last = name.find_last_of('/') + 1;
    const std::size_t dot = name.find('.', last);
    const std::string_view file = name.substr(last);
    if (dot == std::string_view::npos || dot == last || (file.starts_with("__") && file.ends_with("__"))) return {};
    std::string extension(name.substr(dot + 1));
    for (char& c : extension)
        if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    return {std::string(name.substr(0, dot)), extension};
}

bool is_plain_image(std::string_view extension) {
    return extension.find('.') == std::string_view::npos && has_image_extension("a." + std::string(extension));
}

// "05.01.jpg": "jpg" and "05.01".
std::string_view last_part(std::string_view extension) { return extension.substr(extension.rfind('.') + 1); }
std::string_view before_last_part(std::string_view extension) {
    const std::size_t dot = extension.rfind('.');
    return dot == std::string_view::npos ? std::string_view() : extension.substr(0, dot);
}

bool is_note(std::string_view extension) {
    const std::string_view last = last_part(extension);
    return last == "json" || last == "txt" || last == "cls";
}

}  // namespace

TarPictures::TarPictures(const std::string& input, const StillWanted& still_wanted) : input_(input) {
    if (input.empty()) refuse_listing(input, "the source webdataset needs an input and none is given");
    std::error_code error;
    const fs::file_status status = fs::status(input, error);
    if (status.type() == fs::file_type::not_found) refuse_listing(input, "no such file or folder");
    if (error) refuse_listing(input, "cannot be accessed: " + error.message());
    std::vector<std::string> names;
    if (fs::is_directory(status)) {
        folder_ = input;
        names = shards_in(input);
    } else if (fs::is_regular_file(status)) {
        folder_ = fs::path(input).parent_path().string();
        names.push_back(fs::path(input).filename().string());
    } else {
        refuse_listing(input, "neither a file nor a folder", ErrorKind::BadInput);
    }
    for (const std::string& name : names) {
        if (still_wanted) still_wanted();
        read_shard(name);
    }
    if (samples_.empty())
        refuse_listing(input,
                       "no samples in " + std::to_string(names.size()) + (names.size() == 1 ? " shard" : " shards"));
    keys_ = ItemKeys(std::move(names_), NamesAre::Ids);
}

void TarPictures::read_shard(const std::string& name) {
    const auto shard = static_cast<std::uint32_t>(shards_.size());
    shards_.push_back((fs::path(folder_) / name).string());
    const std::string prefix = name.substr(0, name.size() - (name.ends_with(kEnding) ? kEnding.size() : 0));
    Members members;
    const auto end_sample = [&] {
        if (!members.name.empty()) finish(shard, prefix, std::exchange(members, {}));
    };
    try {
        const RegularFile file = open_shard(shards_.back());
        auto problem = index_tar(
            [&](std::uint64_t offset, char* to, std::size_t bytes) {
                return read_at(file, offset, {to, bytes});
            },
            [&](const TarMember& member) {
                auto [its_sample, extension] = parted(member.name);
                if (its_sample.empty()) {
                    ++other_members_;
                    return;
                }
                if (its_sample != members.name) {
                    end_sample();
                    members.name = std::move(its_sample);
                }
                const bool is_known = is_note(extension) || has_image_extension("a." + extension);
                other_members_ += is_known ? 0 : 1;
                if (!members.add({.offset = member.offset, .bytes = member.bytes, .extension = std::move(extension)}))
                    ++repeated_;
            },
            &passed_over_);
        continuing_ += std::exchange(passed_over_.continues_after_end, false) ? 1 : 0;
        end_sample();
        std::array<char, 2> front{};
        if (problem && read_at(file, 0, front) == 2 && front[0] == '\x1f' && front[1] == '\x8b')
            problem = "gzip-compressed, which cannot be read at random positions: unpack it with gunzip";
        if (problem) add_broken(shard, prefix, *problem);
    } catch (const UnreadableItem& unreadable) {
        end_sample();
        add_broken(shard, prefix, unreadable.what());
    }
}

// Returns false if the sample already has a member with this name.
bool TarPictures::Members::add(Part part) {
    extensions += (extensions.empty() ? "" : ", ") + part.extension;
    const bool note = is_note(part.extension);
    if (!note && !has_image_extension("a." + part.extension)) return true;
    std::vector<Part>& parts = note ? notes : pictures;
    if (std::ranges::find(parts, part.extension, &Part::extension) != parts.end()) return false;
    parts.push_back(std::move(part));
    return true;
}

void TarPictures::finish(std::uint32_t shard, const std::string& prefix, Members members) {
    const std::string name = prefix + "/" + members.name;
    const auto plain =
        std::ranges::find_if(members.pictures, [](const Part& part) { return is_plain_image(part.extension); });
    if (plain == members.pictures.end() && members.pictures.size() > 1) return add_each(shard, name, members);
    Sample sample{.shard = shard};
    if (members.pictures.empty())
        broken_.emplace(samples_.size(),
                        "no picture among the sample's members (" + printable(members.extensions) + ")");
    else
        sample.picture = plain == members.pictures.end() ? members.pictures.front() : *plain;
    further_pictures_ += members.pictures.empty() ? 0 : members.pictures.size() - 1;
    const std::string_view own = before_last_part(sample.picture.extension);
    for (Part& note : members.notes) {
        const std::string_view stem = before_last_part(note.extension);
        if (!stem.empty() && stem != own) {
            ++other_members_;
            continue;
        }
        note.extension = last_part(note.extension);
        sample.notes.push_back(std::move(note));
    }
    samples_.push_back(std::move(sample));
    names_.push_back(name);
}

// Makes each picture an item, with the notes for its name and for the whole sample.
void TarPictures::add_each(std::uint32_t shard, const std::string& name, const Members& members) {
    const auto is_used = [&](const Part& note) {
        const std::string_view stem = before_last_part(note.extension);
        return stem.empty() || std::ranges::any_of(members.pictures, [&](const Part& picture) {
                   return before_last_part(picture.extension) == stem;
               });
    };
    other_members_ += static_cast<std::uint64_t>(
        std::ranges::count_if(members.notes, [&](const Part& note) { return !is_used(note); }));
    std::vector<std::string_view> stems;
    for (const Part& picture : members.pictures) {
        const std::string_view stem = before_last_part(picture.extension);
        if (std::ranges::find(stems, stem) != stems.end()) {
            ++further_pictures_;
            continue;
        }
        stems.push_back(stem);
        Sample sample{.shard = shard, .picture = picture, .notes = {}};
        for (Part note : members.notes) {
            const std::string_view its_stem = before_last_part(note.extension);
            if (!its_stem.empty() && its_stem != stem) continue;
            note.extension = last_part(note.extension);
            sample.notes.push_back(std::move(note));
        }
        samples_.push_back(std::move(sample));
        names_.push_back(name + "." + std::string(stem));
    }
}

void TarPictures::add_broken(std::uint32_t shard, const std::string& name, std::string why) {
    broken_.emplace(samples_.size(), "the shard cannot be read: " + std::move(why));
    samples_.push_back({.shard = shard});
    names_.push_back(name + "/(broken)");
}

std::string TarPictures::description() const {
    return std::to_string(samples_.size()) + " samples of " + std::to_string(shards_.size()) + " shards of " +
           printable(input_) + (broken_.empty() ? "" : ", " + std::to_string(broken_.size()) + " of them unusable");
}

std::vector<LeftOut> TarPictures::left_out() const {
    std::vector<LeftOut> left_out;
    const auto add = [&](const char* what, std::uint64_t count) {
        if (count > 0) left_out.push_back({what, count});
    };
    add("members that are links", passed_over_.links);
    add("members that are sparse files", passed_over_.sparse);
    add("parts of shards after their end mark (concatenated archives)", continuing_);
    add("further pictures of samples that already have one", further_pictures_);
    add("members whose sample already has one of that name", repeated_);
    add("members other than pictures and their .json, .txt and .cls", other_members_);
    return left_out;
}

void TarPictures::check_usable(std::uint64_t picture) const {
    if (const auto why = broken_.find(picture); why != broken_.end()) throw UnreadableItem(why->second);
}

PicturePlace TarPictures::place(std::uint64_t picture) const {
    check_usable(picture);
    const Sample& sample = samples_[picture];
    return {shards_[sample.shard], sample.picture.offset, sample.picture.bytes};
}

std::string TarPictures::origin(std::uint64_t picture) const {
    return printable(shards_[samples_[picture].shard]) + " (" + std::string(keys_[picture]) + ")";
}

std::string TarPictures::text_of(const Sample& sample, const Part& part) const {
    if (part.bytes > kMostBytesOfAPart)
        throw UnreadableItem("its ." + part.extension + " has " + std::to_string(part.bytes) +
                             " bytes; at most 16 MiB are read");
    std::string text(part.bytes, '\0');
    if (read_at(open_shard(shards_[sample.shard]), part.offset, text) < text.size())
        throw UnreadableItem("truncated: its ." + part.extension + " continues beyond the shard's end");
    return text;
}

std::string TarPictures::columns(std::uint64_t picture) const {
    check_usable(picture);
    const Sample& sample = samples_[picture];
    json all = json::object();
    for (const Part& part : sample.notes) {
        std::string text = text_of(sample, part);
        if (part.extension == "json") {
            try {
                all.update(parse_input_object(without_not_numbers(text)));
            } catch (const UnreadableItem& problem) {
                throw UnreadableItem(std::string("its .json: ") + problem.what());
            }
        } else {
            while (text.ends_with('\n') || text.ends_with('\r')) text.pop_back();
            all[part.extension] = std::move(text);
        }
    }
    return json_text(all);
}

std::uint64_t TarPictures::columns_hash(std::uint64_t picture) const {
    std::uint64_t hash = 0;
    for (const Part& part : samples_[picture].notes)
        hash = XXH3_64bits_withSeed(part.extension.data(), part.extension.size(), hash ^ (part.bytes + 1));
    return hash;
}

std::uint64_t TarPictures::listed_hash(std::uint64_t picture) const {
    const Sample& sample = samples_[picture];
    std::uint64_t hash = columns_hash(picture) ^ sample.picture.bytes;
    hash = XXH3_64bits_withSeed(&sample.picture.offset, sizeof sample.picture.offset, hash);
    for (const Part& part : sample.notes) hash = XXH3_64bits_withSeed(&part.offset, sizeof part.offset, hash);
    return hash;
}

}  // namespace offramp
