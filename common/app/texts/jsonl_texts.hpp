#pragma once

#include <string>
#include <vector>

#include "common/app/images/picture_list.hpp"
#include "common/app/texts/listed_texts.hpp"
#include "common/base/files.hpp"

namespace offramp {

// A file of texts, one JSON object per line. Blank lines are ignored. Owns the open file and keeps each line's
// position: a line is read again on demand, and is unreadable if it has changed. Blocks: the constructor reads the
// whole file. Errors: the constructor: ConfigError with the file, the line number, the value and the remedy: NoInput: a
// missing file, no line; BadInput: a line that is invalid (TextListing), not UTF-8, or longer than 64 MiB.
class JsonlTexts final : public ListedTexts {
  public:
    explicit JsonlTexts(const InputSettings& config, const StillWanted& still_wanted = {});

    std::string description() const override;
    BesideText beside(std::uint64_t number) const override;
    std::string origin(std::uint64_t number) const override;

  private:
    struct Line {
        std::uint64_t number = 0;  // counts from 1
        std::uint64_t offset = 0;
        std::uint64_t bytes = 0;
    };

    void read_lines(const StillWanted& still_wanted);
    std::string whole_text(std::uint64_t number) const override { return row(number).text; }
    TextRow row(std::uint64_t number) const;

    RegularFile file_;
    std::vector<Line> lines_;
};

}  // namespace offramp
