#pragma once

#include <string>

#include "common/app/settings/run_config.hpp"
#include "consumer/processors/processor.hpp"

namespace offramp::test {

// A custom processor whose slabs are processed by offramp-consumer, one process per slab, like dead letters. Used for
// Python, since a consumer becomes an interpreter, and for all kinds where OFFRAMP_TEST_CONSUMER and
// OFFRAMP_TEST_CONSUMER_PYTHON name an installation. Owns: nothing that outlives process(). Thread: one. Blocks: until
// that process has ended. Errors: Error with the kind of its exit code, with its output.
class ByConsumer final : public Processor {
  public:
    explicit ByConsumer(const RunConfig& config) : config_(config) {}

    static bool is_installed();
    // Why this build cannot have one; else empty.
    static std::string missing_requirement();

    void process(const SlabContents& slab, const Progress& progress, const StillCurrent& still_current) override;

  private:
    const RunConfig config_;
};

}  // namespace offramp::test
