#pragma once

#include <cstdint>
#include <string>

#include "common/base/error.hpp"

namespace offramp {

// Why a run failed, in the form that its launcher acts on; RUN_DIR/summary.json has it.
struct FailureCause {
    enum class Kind {
        Input,         // too many items cannot be read
        Model,         // the model fails, and fails again on the same items
        SlabTooSmall,  // the same work needs --slab-bytes of at least `slab_bytes`
    };
    Kind kind = Kind::Input;
    std::uint64_t slab_bytes = 0;
};

// A failure of bad input whose cause is known.
class RunFailure : public Error {
  public:
    RunFailure(FailureCause cause, const std::string& problem, const std::string& hint)
        : Error(ErrorKind::BadInput, problem, hint), cause_(cause) {}

    const FailureCause& cause() const noexcept { return cause_; }

  private:
    FailureCause cause_;
};

}  // namespace offramp
