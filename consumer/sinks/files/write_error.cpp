#include "consumer/sinks/files/write_error.hpp"

#include <cerrno>

#include "common/base/way_to_write.hpp"

namespace offramp {
namespace {

std::string way_out(int errno_value) {
    switch (errno_value) {
        case EROFS:
            return "That file system is mounted read-only: give an output on another one";
        case EACCES:
        case EPERM:
            return "Give an output that this user may write, or change its permissions";
        case ENOTDIR:
        case EEXIST:
        case EISDIR:
            return "There is a file in the place of a folder, or a folder in the place of a file: remove it, or give "
                   "another output";
        case ENAMETOOLONG:
            return "The sample's key is too long for a file name there: shorten the input's file names";
        default:
            return way_to_write(errno_value, "Check the output folder and its file system");
    }
}

}  // namespace

SystemError write_error(const std::string& tried, int errno_value) {
    return {"cannot write: " + tried, errno_value, way_out(errno_value), ErrorKind::CannotWrite};
}

}  // namespace offramp
