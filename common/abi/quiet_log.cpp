#include "common/abi/guarded.hpp"

#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/null_sink.h>
#include <spdlog/spdlog.h>

#include <cstdlib>
#include <memory>
#include <mutex>
#include <string>

namespace offramp::abi {

void quiet_log() {
    static std::once_flag once;
    std::call_once(once, [] {
        spdlog::sink_ptr sink = std::make_shared<spdlog::sinks::null_sink_mt>();
        if (const char* const path = std::getenv("OFFRAMP_LOG"); path != nullptr && *path != '\0') {
            try {
                sink = std::make_shared<spdlog::sinks::basic_file_sink_mt>(path);
            } catch (const spdlog::spdlog_ex&) {  // the file cannot be opened: no log
            }
        }
        auto logger = std::make_shared<spdlog::logger>("offramp", std::move(sink));
        logger->flush_on(spdlog::level::info);
        logger->set_error_handler(
            [](const std::string&) {});  // do not print to the program's terminal if the disk is full
        spdlog::set_default_logger(std::move(logger));
    });
}

}  // namespace offramp::abi
