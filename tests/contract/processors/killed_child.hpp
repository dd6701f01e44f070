#pragma once

#include <functional>
#include <optional>

namespace offramp::test {

// The fate of a child process that was to be killed.
enum class Outcome { Killed, Finished, Failed };

// Runs `work` in a forked child that is killed by SIGKILL at its n-th system call (entry and return count
// apart). Nothing when this machine does not let a process trace its child.
std::optional<Outcome> killed_at_syscall(int n, const std::function<void()>& work);

// Runs `work` in a forked child that kills itself with SIGKILL when `countdown` is called the n-th time.
Outcome killed_at_call(int n, const std::function<void(const std::function<void()>& countdown)>& work);

}  // namespace offramp::test
