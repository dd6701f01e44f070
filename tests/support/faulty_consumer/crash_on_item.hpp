#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "consumer/processors/processor.hpp"

namespace offramp::faulty {

// Dies on a slab that holds a certain item, otherwise runs `inner`. Settings from the environment:
//   OFFRAMP_TEST_CRASH_ITEM    the item's number
//   OFFRAMP_TEST_CRASH_HOW     kill (default), segv, abort, exit (code 3), throw (std::exception),
//                              sink (SinkUnavailable), fail, reject
//   OFFRAMP_TEST_CRASH_WHEN    before (default) or after the inner processor has committed the slab
//   OFFRAMP_TEST_CRASH_TIMES   maximum number of deaths over all consumers [every time]
//   OFFRAMP_TEST_CRASH_FILE    the file that counts them; required with OFFRAMP_TEST_CRASH_TIMES
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
