#include "common/base/shown_url.hpp"

#include <cstdint>

#include "common/base/log.hpp"

namespace offramp {
namespace {

constexpr std::string_view kLeftOut = "left-out-";

// FNV-1a.
std::uint64_t hash_of(std::string_view text) {
    std::uint64_t hash = 0xcbf29ce484222325;
    for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
    return hash;
}

// Where the authority, "user:password@host:port", begins and ends.
struct Authority {
    std::size_t begin = 0, end = 0;
};

Authority authority_of(std::string_view url) {
    const std::size_t scheme = url.find("://");
    const std::size_t begin = scheme == std::string_view::npos ? 0 : scheme + 3;
    const std::size_t end = url.find_first_of("/?#", begin);
    return {.begin = begin, .end = end == std::string_view::npos ? url.size() : end};
}

}  // namespace

std::string without_credentials(std::string_view url) {
    const auto [begin, end] = authority_of(url);
    const std::size_t at = url.substr(0, end).rfind('@');
    if (at == std::string_view::npos || at < begin) return std::string(url);
    return std::string(url.substr(0, begin)) + std::string(url.substr(at + 1));
}

bool has_credentials(std::string_view url) { return without_credentials(url) != url; }

bool lacks_its_query(std::string_view url) {
    const std::size_t query = url.find('?');
    return query != std::string_view::npos && url.substr(query + 1).starts_with(kLeftOut);
}

std::string kept_url(std::string_view url) {
    const std::string clean = without_credentials(url);
    const std::size_t query = clean.find('?');
    if (query == std::string::npos || lacks_its_query(clean)) return clean;
    return fmt::format("{}?{}{:016x}", clean.substr(0, query), kLeftOut, hash_of(std::string_view(clean).substr(query)));
}

std::string shown_url(std::string_view url) {
    const std::string clean = without_credentials(url);
    return clean.substr(0, clean.find_first_of("?#"));
}

}  // namespace offramp
