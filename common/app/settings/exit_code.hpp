#pragma once

#include "common/base/error_kind.hpp"
#include "common/base/remedy.hpp"

namespace offramp {

// The exit code of an Offramp program: success, one of two ends that are not errors, or the number of the error that
// ended it. launch/guide/reference/exit-codes.md lists the launcher's reaction to each.
enum class ExitCode : int {
    Ok = 0,
    DeadLetters = 84,   // the run finished, but batches became dead letters and are listed
    Interrupted = 130,  // drained on the user's request before the input ended
};

constexpr int to_int(ExitCode code) { return static_cast<int>(code); }

constexpr ExitCode exit_code_for(ErrorKind kind) { return static_cast<ExitCode>(kind); }

// Remedies in terms of the programs' flags, for put_remedies(). A test compares the flags with the settings.
const char* flag_remedy(Remedy which) noexcept;

}  // namespace offramp
