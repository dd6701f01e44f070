#include "producer/runner/report/dropped_log.hpp"

#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>

#include "common/base/log.hpp"
#include "common/json/json_text.hpp"

namespace offramp {

void DroppedLog::note(std::uint64_t batch, std::span<const RowInfo> rows) {
    if (!std::exchange(told_, true))
        spdlog::warn("no slab is free: outputs are dropped whenever that happens, and listed in {}", path_);
    nlohmann::json samples = nlohmann::json::array();
    for (const RowInfo& row : rows)
        if (!row.empty)
            samples.push_back(
                {{"item", row.item}, {"key", row.key.empty() ? std::to_string(row.item) : std::string(row.key)}});
    if (!file_.is_open()) file_.open(path_, std::ios::app);
    const nlohmann::json line{{"batch", batch}, {"samples", std::move(samples)}};
    file_ << json_text(line) << '\n';
    if (file_.flush()) return;
    if (failed_++ == 0)
        spdlog::error("{} cannot be written, dropped samples are not listed there: {}", path_, std::strerror(errno));
    file_.clear();
}

}  // namespace offramp
