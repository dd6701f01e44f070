#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "consumer/processors/processor.hpp"

namespace offramp::faulty {

// Dies when it meets a slab that holds a certain item, else does what `inner` does. Set through the
// environment:
//   OFFRAMP_TEST_CRASH_ITEM    the item's number
//   OFFRAMP_TEST_CRASH_HOW     kill (default), segv, abort, exit (code 3), throw (no exit code of its own),
//   sink (SinkUnavailable) OFFRAMP_TEST_CRASH_WHEN    before (default) or after the inner processor has
//   committed the slab OFFRAMP_TEST_CRASH_TIMES   deaths at most, over all consumers; default: every time
//   OFFRAMP_TEST_CRASH_FILE    the file in which they are counted; needed with OFFRAMP_TEST_CRASH_TIMES
class CrashOnItem final : public Processor {
  public:
    // Errors: ConfigError for a setting that is missing or unknown.
    explicit CrashOnItem(std::unique_ptr<Processor> inner);

    void process(const SlabContents& slab, const Progress& progress, const StillCurrent& still_current) override;

  private:
    bool may_crash() const;
    void crash() const;

    std::unique_ptr<Processor> inner_;
    std::uint64_t item_;
    std::string how_;
    std::string when_;
    std::uint64_t times_;
    std::string count_file_;
};

}  // namespace offramp::faulty
