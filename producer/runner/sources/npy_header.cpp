#include "producer/runner/sources/npy_header.hpp"

#include <charconv>
#include <string_view>

#include "common/base/error.hpp"

namespace offramp {
namespace {

using namespace std::string_view_literals;

[[noreturn]] void refuse(const std::string& why) {
    throw ConfigError("not a valid .npy file: " + why, "Write it with numpy.save()", ErrorKind::BadInput);
}

// The header's text, a Python dictionary of three entries: {'descr': '<f4', 'fortran_order': False, 'shape': (100, 3,
// 64, 64), }
class Dictionary {
  public:
    explicit Dictionary(std::string_view text) : left_(text) {}

    NpyHeader read() {
        NpyHeader header;
        bool descr = false, order = false, shape = false;
        want('{');
        while (!take('}')) {
            const std::string key = quoted();
            want(':');
            if (key == "descr" && !descr) {
                descr = true;
                skip_blanks();
                if (left_.starts_with('[')) refuse("its elements are records with several fields");
                header.descr = quoted();
            } else if (key == "fortran_order" && !order) {
                order = true;
                header.fortran_order = truth();
            } else if (key == "shape" && !shape) {
                shape = true;
                header.shape = numbers();
            } else {
                refuse("its header has an entry too many");
            }
            if (take('}')) break;
            want(',');
        }
        if (!descr || !order || !shape) refuse("its header lacks descr, fortran_order or shape");
        skip_blanks();
        if (!left_.empty()) refuse("its header continues after its end");
        return header;
    }

  private:
    void skip_blanks() { left_.remove_prefix(std::min(left_.find_first_not_of(" \t\r\n"), left_.size())); }
    bool take(char c) {
        skip_blanks();
        if (!left_.starts_with(c)) return false;
        left_.remove_prefix(1);
        return true;
    }
    void want(char c) {
        if (!take(c)) refuse(std::string("its header lacks a '") + c + "'");
    }
    bool take_word(std::string_view word) {
        skip_blanks();
        if (!left_.starts_with(word)) return false;
        left_.remove_prefix(word.size());
        return true;
    }
    std::string quoted() {
        skip_blanks();
        const char quote = left_.empty() ? '\0' : left_.front();
        const std::size_t end = quote == '\'' || quote == '"' ? left_.find(quote, 1) : std::string_view::npos;
        if (end == std::string_view::npos) refuse("its header lacks a text");
        std::string text(left_.substr(1, end - 1));
        left_.remove_prefix(end + 1);
        return text;
    }
    bool truth() {
        if (take_word("True")) return true;
        if (!take_word("False")) refuse("its fortran_order is neither True nor False");
        return false;
    }
    std::vector<std::int64_t> numbers() {
        std::vector<std::int64_t> all;
        want('(');
        while (!take(')')) {
            skip_blanks();
            std::int64_t number = 0;
            const auto result = std::from_chars(left_.data(), left_.data() + left_.size(), number);
            if (result.ec != std::errc() || number < 0) refuse("its shape is not a list of numbers from 0 up");
            left_.remove_prefix(static_cast<std::size_t>(result.ptr - left_.data()));
            all.push_back(number);
            if (take(')')) break;
            want(',');
        }
        return all;
    }

    std::string_view left_;
};

}  // namespace

NpyHeader read_npy_header(std::span<const std::byte> front) {
    const std::string_view text(reinterpret_cast<const char*>(front.data()), front.size());
    if (!text.starts_with("\x93NUMPY"sv)) refuse("it does not begin with the magic of .npy");
    if (text.size() < 10) refuse("it ends within its header");
    const auto byte = [&](std::size_t at) { return std::to_integer<std::size_t>(front[at]); };
    const std::size_t version = byte(6);
    if (version < 1 || version > 3) refuse("its format's version is " + std::to_string(version) + "; known are 1 to 3");
    const std::size_t length_bytes = version == 1 ? 2 : 4;
    const std::size_t begin = 8 + length_bytes;
    if (text.size() < begin) refuse("it ends within its header");
    std::size_t length = 0;
    for (std::size_t i = length_bytes; i-- > 0;) length = (length << 8U) | byte(8 + i);
    if (length > kMostNpyHeaderBytes - begin) refuse("its header claims " + std::to_string(length) + " bytes");
    if (length > text.size() - begin) refuse("it ends within its header");
    NpyHeader header = Dictionary(text.substr(begin, length)).read();
    header.bytes = begin + length;
    return header;
}

}  // namespace offramp
