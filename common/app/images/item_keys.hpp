#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>

#include "common/base/string_list.hpp"
#include "common/base/utf8.hpp"

namespace offramp {

// Ids keep anything that looks like an extension, because it is part of the id.
enum class NamesAre { Files, Ids };

// Gives every item of a list a stable key: its path without the image extension if that is unique in the list, else
// with the extension, else with -2, -3, ... appended. Names are relative paths as the user wrote them ("." and ".."
// allowed). A key is well-formed UTF-8 with printable characters only (is_printable()). It is never empty or absolute,
// and no part of it is "." or "..", or begins with kReservedPrefix. It has at most kMaxKeyBytes bytes and each part at
// most 200, so that a sink can use it as a file name and add a suffix. A longer name is cut and ends in a hash of the
// whole. A key gets a number if, with an Offramp suffix (".png", ".logits.npy"), it would be a folder of another key.
//
// Most keys are parts of their names, so that only the others are stored. Owns the names. Thread: any (immutable).
class ItemKeys {
  public:
    ItemKeys() = default;
    // `root`: absolute names below this folder, which ends in "/", have keys relative to it; empty: none.
    explicit ItemKeys(StringList names, NamesAre names_are = NamesAre::Files, std::string root = {});
    // The keys of a part of a list whose keys are independent: those that the items have in the whole list.
    static ItemKeys of_part(StringList names, NamesAre names_are, std::string root);

    // True if each key depends on its own name alone: no two were equal, and none had to be numbered.
    bool are_independent() const { return are_independent_; }
    std::size_t size() const { return names_.size(); }
    std::string_view name(std::uint64_t item) const { return names_[item]; }
    std::string_view operator[](std::uint64_t item) const;  // valid as long as this object

  private:
    class Taken;
    void make_unusual_keys();
    std::string_view part_of(std::string_view name) const;
    std::string clean_key_of(std::string_view name, bool with_extension) const;
    void number_equal_keys(Taken& taken);
    void keep_off_folders(Taken& taken);

    StringList names_;
    NamesAre names_are_ = NamesAre::Files;
    std::string root_;
    std::unordered_map<std::uint64_t, std::string> others_;  // keys that are not part_of() their names
    bool are_independent_ = true;
};

// True for the extensions by which a folder's images are selected, in upper or lower case.
bool has_image_extension(std::string_view name);
std::string_view without_image_extension(std::string_view name);

}  // namespace offramp
