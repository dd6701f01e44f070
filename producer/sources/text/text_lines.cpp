#include "producer/sources/text/text_lines.hpp"

namespace offramp {
namespace {

constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

}  // namespace

TextLines::TextLines(const std::string& path) : file_(path), text_(reinterpret_cast<const char*>(file_.bytes().data()), file_.bytes().size()) {
    if (text_.starts_with(kByteOrderMark)) text_.remove_prefix(kByteOrderMark.size());
    begins_.push_back(0);
    for (std::size_t at = 0; at < text_.size();) {
        const std::size_t end = text_.find('\n', at);
        at = end == std::string_view::npos ? text_.size() : end + 1;
        begins_.push_back(at);
    }
}

std::string_view TextLines::line(std::uint64_t number) const {
    std::string_view line = text_.substr(begins_[number], begins_[number + 1] - begins_[number]);
    if (line.ends_with('\n')) line.remove_suffix(1);
    if (line.ends_with('\r')) line.remove_suffix(1);
    return line;
}

}  // namespace offramp
