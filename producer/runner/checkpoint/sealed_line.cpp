#include "producer/runner/checkpoint/sealed_line.hpp"

#include <charconv>
#include <nlohmann/json.hpp>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "common/base/log.hpp"
#include "common/json/json_text.hpp"

namespace offramp {
namespace {

using nlohmann::json;

constexpr std::string_view kBeforeHash = "{\"xxh3\":\"";
constexpr std::string_view kAfterHash = "\",";
constexpr std::size_t kDigits = 16;
constexpr std::size_t kFront = kBeforeHash.size() + kDigits + kAfterHash.size();

}  // namespace

std::string sealed_line(std::string_view body) {
    return fmt::format("{}{:016x}{}{}\n", kBeforeHash, XXH3_64bits(body.data(), body.size()), kAfterHash, body);
}

json opened_line(std::string_view line) {
    const json nothing = json::value_t::discarded;
    if (seal_of(line).empty()) return nothing;
    const std::string_view body = line.substr(kFront);
    if (line != std::string_view(sealed_line(body)).substr(0, line.size())) return nothing;
    json object = parse_json_or_discard("{" + std::string(body));
    return object.is_object() ? object : nothing;
}

std::string_view seal_of(std::string_view line) {
    return line.size() > kFront && line.starts_with(kBeforeHash) ? line.substr(kBeforeHash.size(), kDigits)
                                                                 : std::string_view();
}

std::string as_digits(const std::uint64_t* begin, const std::uint64_t* end) {
    std::string digits;
    for (; begin != end; ++begin) digits += fmt::format("{:016x}", *begin);
    return digits;
}

bool add_from_digits(std::string_view digits, std::vector<std::uint64_t>& numbers) {
    if (digits.size() % kDigits != 0) return false;
    std::vector<std::uint64_t> found(digits.size() / kDigits);
    for (std::size_t i = 0; i < found.size(); ++i) {
        const char* const begin = digits.data() + i * kDigits;
        if (std::from_chars(begin, begin + kDigits, found[i], 16).ptr != begin + kDigits) return false;
    }
    numbers.insert(numbers.end(), found.begin(), found.end());
    return true;
}

}  // namespace offramp
