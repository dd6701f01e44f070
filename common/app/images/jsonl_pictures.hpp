#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "common/app/images/picture_list.hpp"
#include "common/base/files.hpp"

namespace offramp {

// A manifest of pictures, one JSON object a line: {"id": "7", "uri": "photos/7.jpg", "label": "chair"}. `uri` is a path
// relative to the manifest's folder, an absolute one, or file://; `id` (text or a whole number) names the results, and
// where it is missing the path does. Every other member is a column. A line that is not such an object, or whose id an
// earlier line has, is a picture that cannot be read, with its line's number; blank lines do not count. Owns the open
// file, and the position of each line: a line is read again on demand, and is unreadable if it has changed. Blocks: the
// constructor reads the whole file. Errors: the constructor: ConfigError NoInput: a missing file, no permission, no
// line; BadInput: not a regular file.
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
        std::uint64_t number = 0;  // from 1
        std::uint64_t offset = 0;
        std::uint64_t bytes = 0;
        std::uint64_t columns_hash = 0;
        std::uint64_t hash = 0;  // of its text
    };

    void read_lines();
    void take(const Line& line, std::string_view text);
    std::string text_of(std::uint64_t picture) const;
    void check_usable(std::uint64_t picture) const;

    std::string input_;
    std::string folder_;
    RegularFile file_;
    std::vector<Line> lines_;
    std::vector<std::string> keys_;                            // at first the names that they are made of
    std::unordered_map<std::string, std::uint64_t> ids_;       // while reading: the line that has each
    std::unordered_map<std::uint64_t, std::string> unusable_;  // by picture: why
};

// Parses the input's description of an item: one JSON object, of at most 64 levels of objects and arrays, itself among
// them. What copies or writes JSON goes down level by level, and a text of a few hundred kilobytes is deeper than a
// thread's stack. A whole number beyond 64 bits, as ids may be, becomes a text of its digits instead of a rounded
// double. Thread: any. Errors: UnreadableItem: not JSON (at which byte), not an object, nested too deep, a number that
// no double holds, a name that the object has twice (objects within it keep the last value of such a name).
nlohmann::json parse_input_object(std::string_view text);

// The same text with null for NaN, Infinity and -Infinity, which Python writes though JSON has none of them.
std::string without_not_numbers(std::string_view text);

}  // namespace offramp
