#include "consumer/sinks/http/http_exchange.hpp"

#include <algorithm>
#include <cctype>
#include <span>

#include "common/base/error.hpp"
#include "common/base/files.hpp"
#include "common/base/redacted_url.hpp"

namespace offramp {

HttpVerdict verdict_of(long status) {
    if (status >= 200 && status < 300) return HttpVerdict::Done;
    if (status >= 500) return HttpVerdict::TryAgain;
    switch (status) {
        case 408:  // Request Timeout
        case 425:  // Too Early
        case 429:  // Too Many Requests
            return HttpVerdict::TryAgain;
        case 401:  // Unauthorized
        case 402:  // Payment Required
        case 403:  // Forbidden
        case 404:  // Not Found
        case 405:  // Method Not Allowed
        case 406:  // Not Acceptable
        case 407:  // Proxy Authentication Required
        case 410:  // Gone
        case 411:  // Length Required
        case 415:  // Unsupported Media Type
        case 421:  // Misdirected Request
        case 426:  // Upgrade Required
        case 431:  // Request Header Fields Too Large
            return HttpVerdict::NothingEver;
        default:
            return status >= 400 ? HttpVerdict::NotThisOne : HttpVerdict::NothingEver;
    }
}

namespace {

constexpr std::chrono::milliseconds kFirst{100};
constexpr std::chrono::milliseconds kLongest{5000};
constexpr unsigned kDoublings = 6;  // doubles from the first delay to past the longest

// Exceeds any header that a server accepts.
constexpr std::uint64_t kLargestFile = 1 << 16;

// The headers that each request sets itself.
constexpr std::string_view kSetByRequests[] = {"content-type",    "content-length", "transfer-encoding", "expect",
                                               "idempotency-key", "offramp-sample", "offramp-output"};

bool is_name(std::string_view text) {
    static constexpr std::string_view kOthers = "!#$%&'*+-.^_`|~";
    return !text.empty() && std::ranges::all_of(text, [](char c) {
        return std::isalnum(static_cast<unsigned char>(c)) != 0 || kOthers.find(c) != std::string_view::npos;
    });
}

bool is_control(char c) { return (static_cast<unsigned char>(c) < 0x20 && c != '\t') || c == 0x7f; }

std::string lower(std::string_view text) {
    std::string small(text);
    for (char& c : small) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    return small;
}

void require_header(std::string_view line, const std::string& origin) {
    const std::size_t colon = line.find(':');
    if (colon == std::string_view::npos || !is_name(line.substr(0, colon)) || http_header_value(line).empty() ||
        std::ranges::any_of(line, is_control))
        throw ConfigError(origin + " is not a header (its text is not shown: it may hold a secret)",
                          "Accepted: 'NAME: VALUE', or @FILE with one a line");
    const std::string name = lower(line.substr(0, colon));
    if (std::ranges::find(kSetByRequests, name) != std::end(kSetByRequests))
        throw ConfigError(origin + " sets '" + name + "', which each request sets itself", "Leave it out");
}

std::string read_file(const std::string& path) {
    try {
        const RegularFile file(path);
        std::string text(std::min(file.size(), kLargestFile + 1), '\0');
        text.resize(file.read_at(0, std::as_writable_bytes(std::span(text))));
        if (text.size() > kLargestFile)
            throw Error(ErrorKind::BadInput, "larger than " + std::to_string(kLargestFile) + " bytes");
        return text;
    } catch (const Error& problem) {
        throw Error(problem.kind(), "--http-header: file '" + path + "': " + problem.what(),
                    "Give a file with one header a line, NAME: VALUE");
    }
}

}  // namespace

std::chrono::milliseconds RetryDelay::next() {
    const auto whole = std::min(kFirst * (1 << tries_), kLongest);
    tries_ = std::min(tries_ + 1, kDoublings);
    return std::chrono::milliseconds(
        std::uniform_int_distribution<std::int64_t>(whole.count() / 2, whole.count())(random_));
}

void require_no_credentials(const std::string& url) {
    if (has_credentials(url))
        throw ConfigError(
            "--http-url " + redacted_url(url) + " contains a user or a password, which process lists show",
            "Take them out, and give 'Authorization: Basic ...' as --http-header @FILE");
}

std::string_view http_header_value(std::string_view header) {
    header.remove_prefix(std::min(header.find(':') + 1, header.size()));
    const std::size_t begin = std::min(header.find_first_not_of(" \t"), header.size());
    const std::size_t end = header.find_last_not_of(" \t") + 1;
    return header.substr(begin, std::max(begin, end) - begin);
}

std::vector<std::string> read_http_headers(const std::string& setting) {
    if (setting.empty()) return {};
    if (!setting.starts_with('@')) {
        require_header(setting, "--http-header");
        return {setting};
    }
    const std::string path = setting.substr(1);
    const std::string text = read_file(path);
    std::vector<std::string> headers;
    std::size_t number = 0;
    for (std::size_t begin = 0; begin < text.size();) {
        const std::size_t end = std::min(text.find('\n', begin), text.size());
        std::string line = text.substr(begin, end - begin);
        if (line.ends_with('\r')) line.pop_back();
        begin = end + 1;
        ++number;
        if (line.find_first_not_of(" \t") == std::string::npos) continue;
        require_header(line, "line " + std::to_string(number) + " of --http-header's file '" + path + "'");
        headers.push_back(std::move(line));
    }
    return headers;
}

}  // namespace offramp
