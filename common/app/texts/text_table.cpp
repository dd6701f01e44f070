#include "common/app/texts/text_table.hpp"

#include <charconv>

#include "common/base/error.hpp"
#include "common/base/utf8.hpp"

namespace offramp {
namespace {

// Reads the number before `end` and consumes both. `end` 0: reads the whole rest. Accepts only the form of chunk_key().
template <class Number>
bool take_whole(std::string_view& from, char end, Number& number) {
    const std::size_t size = end == 0 ? from.size() : from.find(end);
    if (size == std::string_view::npos || size == 0 || (size > 1 && from.front() == '0')) return false;
    const auto [stop, failure] = std::from_chars(from.data(), from.data() + size, number);
    if (failure != std::errc() || stop != from.data() + size) return false;
    from.remove_prefix(size + (end == 0 ? 0 : 1));
    return true;
}

}  // namespace

std::string chunk_key(const TextChunk& chunk) {
    return std::string(chunk.text) + "#" + std::to_string(chunk.number) + "@" + std::to_string(chunk.begin) + "-" +
           std::to_string(chunk.end);
}

std::optional<TextChunk> chunk_of_key(std::string_view key) {
    const std::size_t mark = key.rfind('#');
    if (mark == std::string_view::npos || mark == 0) return std::nullopt;
    TextChunk chunk{.text = key.substr(0, mark)};
    std::string_view place = key.substr(mark + 1);
    if (!take_whole(place, '@', chunk.number) || !take_whole(place, '-', chunk.begin) ||
        !take_whole(place, 0, chunk.end) || chunk.end < chunk.begin)
        return std::nullopt;
    return chunk;
}

TextChunk chunk_named(std::string_view key) {
    if (const auto chunk = chunk_of_key(key)) return *chunk;
    throw Error(ErrorKind::System, "the sample '" + printable(key) + "' does not have the key of a chunk",
                "Give the consumer the run's --chunk-tokens, or leave --chunk-tokens out");
}

}  // namespace offramp
