#pragma once

#include <string>

#include "common/app/settings/run_config.hpp"
#include "consumer/processors/processor.hpp"

namespace offramp::test {

// A custom processor, one slab after the other each in a process of its own: offramp-consumer processes it as it does
// a dead letter. One in Python, since a consumer becomes an interpreter; all of them where OFFRAMP_TEST_CONSUMER and
// OFFRAMP_TEST_CONSUMER_PYTHON name those of an installation. Owns: nothing that outlives process(). Thread: one.
// Blocks: until that process has ended. Errors: Error of the kind that it ended with, with its words.
class ByConsumer final : public Processor {
  public:
    explicit ByConsumer(const RunConfig& config) : config_(config) {}

    static bool is_installed();
    // Why there can be none in this build; else empty.
    static std::string missing_requirement();

    void process(const SlabContents& slab, const Progress& progress, const StillCurrent& still_current) override;

  private:
    const RunConfig config_;
};

}  // namespace offramp::test
