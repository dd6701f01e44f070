#include "common/app/settings/setting.hpp"

#include <algorithm>
#include <filesystem>
#include <system_error>

namespace offramp {

std::string whole_path(const std::string& path) {
    if (path.empty()) return path;
    std::error_code problem;
    const std::string whole = std::filesystem::absolute(path, problem).string();
    return problem ? path : whole;
}

std::string Setting::environment_name() const {
    std::string name = "OFFRAMP_" + flag;
    std::transform(name.begin(), name.end(), name.begin(), [](char c) {
        return c == '-' ? '_' : c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
    });
    return name;
}

bool Setting::leaves_unset(const std::string& text) const {
    if (zero == "auto") return text == "auto" || text == "0";
    return text == "auto" && to_text(get(RunConfig{})) == "auto";
}

std::string Setting::compared(const RunConfig& config) const {
    const std::string text = to_text(get(config));
    return counting ? counting(text) : text;
}

}  // namespace offramp
