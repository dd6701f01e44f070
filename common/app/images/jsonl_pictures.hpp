#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "common/app/images/picture_list.hpp"
#include "common/base/files.hpp"
#include "common/base/string_index.hpp"

namespace offramp {

// A manifest of pictures, one JSON object per line: {"id": "7", "uri": "photos/7.jpg", "label": "chair"}. `uri` is a
// path relative to the manifest's folder, an absolute path, or file://. `id` (text or a whole number) names the
// results; without it, the path does. Every other member is a column. An invalid line, or a line with the id of an
// earlier line, counts as an unreadable picture and is reported with its line number. Blank lines are ignored. Owns the
// open file and keeps each line's position: a line is read again on demand, and is unreadable if it has changed.
// Blocks: the constructor reads the whole file. Errors: the constructor: ConfigError NoInput: a missing file, no
// permission, no line; BadInput: not a regular file.
class JsonlPictures final : public PictureList {
  public:
    explicit JsonlPictures(const std::string& input);

    std::string description() const override;
    std::uint64_t size() const override { return lines_.size(); }
    std::string_view key(std::uint64_t picture) const override { return keys_[picture]; }
    PicturePlace place(std::uint64_t picture) const override;
    std::string origin(std::uint64_t picture) const override;
    std::string columns(std::uint64_t picture) const override;
    std::uint64_t columns_hash(std::uint64_t picture) const override { return lines_[picture].columns_hash; }
    std::uint64_t listed_hash(std::uint64_t picture) const override { return lines_[picture].hash; }

  private:
    struct Line {
        std::uint64_t number = 0;  // counts from 1
        std::uint64_t offset = 0;
        std::uint64_t bytes = 0;
        std::uint64_t columns_hash = 0;
        std::uint64_t hash = 0;  // hash of its text
    };

    void read_lines();
    void take(const Line& line, std::string_view text);
    std::string text_of(std::uint64_t picture) const;
    void check_usable(std::uint64_t picture) const;

    std::string input_;
    std::string folder_;
    RegularFile file_;
    std::vector<Line> lines_;
    StringList names_;  // while reading: keys_ owns them then
    ItemKeys keys_;
    StringIndex ids_;                                          // while reading: by number of the picture
    std::unordered_map<std::uint64_t, std::string> unusable_;  // the reason, by picture
};

// Parses the input's description of an item: one JSON object with at most 64 levels of objects and arrays, itself
// included. Code that copies or writes JSON is recursive, and a text of a few hundred kilobytes could nest deeper than
// a thread's stack. A whole number beyond 64 bits (ids may be that long) becomes a text of its digits instead of a
// rounded double. Thread: any. Errors: UnreadableItem: not JSON (with the byte), not an object, nested too deep, a
// number too large for a double, a repeated name (objects within it keep the last value of a repeated name).
nlohmann::json parse_input_object(std::string_view text);

// Replaces NaN, Infinity and -Infinity, which Python writes but JSON does not allow, by null.
std::string without_not_numbers(std::string_view text);

}  // namespace offramp
