#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>

#include "common/base/unique_fd.hpp"

namespace offramp {

// A child program that exchanges lines with this process over its standard input and output. It inherits standard
// error.
//
// Owns: the process and its group, which it kills and reaps on destruction; the child also dies with this process,
// however that dies. Thread: create it on a thread that outlives the process: the kernel kills the child with that
// thread. Blocks: read_line(), until a line arrives; end(), for seconds. Errors: SystemError when the child cannot be
// started.
class ChildProcess {
  public:
    static constexpr std::size_t kLongestLine = std::size_t{64} << 20;

    // Runs `exec COMMAND` in the shell: one program, which gets the signals itself.
    explicit ChildProcess(const std::string& command);
    ChildProcess(const ChildProcess&) = delete;
    ChildProcess& operator=(const ChildProcess&) = delete;
    ~ChildProcess();

    // Returns false if the child has ended or closed its standard input.
    bool write_line(std::string_view line);
    // Returns false if the child has ended. `line` is valid until the next call.
    bool read_line(std::string& line);
    // Closes the child's input to request its end, waits for some seconds, and returns how it ended.
    std::string end();

  private:
    std::string command_;
    pid_t pid_ = -1;
    UniqueFd input_, output_;
    std::string buffer_;
};

}  // namespace offramp
