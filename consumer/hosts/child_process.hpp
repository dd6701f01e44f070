#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>

#include "common/base/unique_fd.hpp"

namespace offramp {

// A program that is spoken with in lines, over its standard input and output; its standard error is ours.
//
// Owns: the process and its group, which are killed and reaped with it; the process dies with this one, too, whatever
// that dies of. Thread: one that lives as long as the process: the child's life hangs on it. Blocks: read_line(), until
// there is one; end(), for seconds. Errors: SystemError when it cannot be started.
class ChildProcess {
  public:
    static constexpr std::size_t kLongestLine = std::size_t{64} << 20;

    // By the shell, as `exec COMMAND`.
    explicit ChildProcess(const std::string& command);
    ChildProcess(const ChildProcess&) = delete;
    ChildProcess& operator=(const ChildProcess&) = delete;
    ~ChildProcess();

    // False: it has ended, or closed its standard input.
    bool write_line(std::string_view line);
    // Nothing: it has ended. Valid until the next call.
    bool read_line(std::string& line);
    // Asks it to end by closing its input, and waits for so long; how it ended.
    std::string end();

  private:
    std::string command_;
    pid_t pid_ = -1;
    UniqueFd input_, output_;
    std::string buffer_;
};

}  // namespace offramp
