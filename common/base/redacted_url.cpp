#include "common/base/redacted_url.hpp"

namespace offramp {
namespace {

constexpr std::string_view kLeftOut = "left-out";

// The position of the authority, "user:password@host:port".
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

bool is_missing_query(std::string_view url) {
    const std::size_t query = url.find('?');
    return query != std::string_view::npos && url.substr(query + 1) == kLeftOut;
}

std::string kept_url(std::string_view url) {
    const std::string clean = without_credentials(url);
    const std::size_t query = clean.find('?');
    return query == std::string::npos ? clean : clean.substr(0, query + 1) + std::string(kLeftOut);
}

std::string kept_header(std::string_view header) {
    return std::string(header.empty() || header.starts_with('@') ? header : kLeftOut);
}

bool is_left_out(std::string_view header) { return header == kLeftOut; }

std::string redacted_url(std::string_view url) {
    const std::string clean = without_credentials(url);
    return clean.substr(0, clean.find_first_of("?#"));
}

}  // namespace offramp
