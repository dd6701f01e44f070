#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "common/base/unique_fd.hpp"
#include "consumer/processors/processor.hpp"

namespace offramp::faulty {

// Holds its consumer in the middle of a slab until the test releases it, without any sleep:
//   OFFRAMP_TEST_ENTERED   a FIFO that the test reads: one line "PID FIRST_ITEM\n" per started slab
//   OFFRAMP_TEST_GATE      a FIFO that the test writes: each 'g' releases one slab; 'p' reports progress and waits on;
//                          'o' opens the gate permanently for all consumers: slabs neither wait nor are reported
// Then runs `inner`.
class Gated final : public Processor {
  public:
    // Blocks: no. Errors: ConfigError for a missing setting, SystemError for a FIFO that cannot be opened.
    explicit Gated(std::unique_ptr<Processor> inner);

    void process(const SlabContents& slab, const Progress& progress, const StillCurrent& still_current) override;

  private:
    void announce(std::uint64_t item) const;
    void wait_at_gate(const Progress& progress);
    char next_word() const;
    void pass_on(char word) const;

    std::unique_ptr<Processor> inner_;
    UniqueFd entered_;
    UniqueFd gate_;
    bool open_ = false;
};

}  // namespace offramp::faulty
