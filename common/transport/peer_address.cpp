#include "common/transport/peer_address.hpp"

#include <array>
#include <charconv>
#include <cstdint>
#include <limits>

namespace offramp {
namespace {

// (uid_t)-1 means "no user" to the kernel.
constexpr PeerCredentials kUnknown{
    .pid = 0, .uid = std::numeric_limits<uid_t>::max(), .gid = std::numeric_limits<gid_t>::max()};

}  // namespace

PeerCredentials parse_peer_address(std::string_view text) {
    constexpr std::string_view kHost = "localhost";
    if (!text.starts_with(kHost)) return kUnknown;
    text.remove_prefix(kHost.size());
    std::array<std::uint32_t, 3> ids{};
    for (auto& id : ids) {
        if (!text.starts_with(':')) return kUnknown;
        text.remove_prefix(1);
        const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), id);
        if (problem != std::errc{}) return kUnknown;
        text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    }
    if (!text.empty() || ids[2] > std::numeric_limits<pid_t>::max()) return kUnknown;
    return {.pid = static_cast<pid_t>(ids[2]), .uid = ids[0], .gid = ids[1]};
}

}  // namespace offramp
