#include "producer/runner/models/unpacked_package.hpp"

namespace offramp {

std::string unpacked_folder(std::string_view maps_line) {
    constexpr std::string_view kTemporary = "/tmp/";
    constexpr std::string_view kInside = "/data/aotinductor/model/";
    const std::size_t begin = maps_line.find('/');
    if (begin == std::string_view::npos) return {};
    const std::string_view path = maps_line.substr(begin);
    if (!path.starts_with(kTemporary)) return {};
    const std::size_t folder_end = path.find('/', kTemporary.size());
    if (folder_end == std::string_view::npos || folder_end == kTemporary.size()) return {};
    const std::size_t name_end = path.find('/', folder_end + 1);
    if (name_end == std::string_view::npos || !path.substr(name_end).starts_with(kInside)) return {};
    return std::string(path.substr(0, folder_end));
}

}  // namespace offramp
