#include "producer/runner/run/egress_strategy.hpp"

#include <utility>

namespace offramp {
namespace {

// Borrows the run.
class StreamedOutputs final : public RunOutputs {
  public:
    explicit StreamedOutputs(EgressRun& run) : run_(run) {}

    bool submit(OutputBatch batch) override { return run_.stream().submit(std::move(batch)); }
    void finish() override { run_.stream().finish(); }
    void stop() override { run_.stop(); }
    OutputStats stats() const override { return run_.stream().stats(); }
    BrokerReport report() const override { return run_.broker().report(); }
    void abort() override { run_.broker().abort(); }
    void join() override { run_.broker().join(); }

  private:
    EgressRun& run_;
};

}  // namespace

std::unique_ptr<RunOutputs> StreamedEgress::make_outputs(EgressParts parts) {
    return std::make_unique<StreamedOutputs>(parts.run);
}

}  // namespace offramp
