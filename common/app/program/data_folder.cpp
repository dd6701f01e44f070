#include "common/app/program/data_folder.hpp"

#include <filesystem>
#include <system_error>

#include "common/base/error.hpp"

namespace offramp {

std::string data_folder() {
    std::error_code failure;
    const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", failure);
    if (failure) throw SystemError("reading the link /proc/self/exe", failure.value(), "Is /proc mounted?");
    return (program.parent_path().parent_path() / "share").string();
}

}  // namespace offramp
