#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "consumer/processors/processor.hpp"
#include "consumer/processors/raw/row_hash.hpp"

namespace offramp::faulty {

// Does what `inner` does, and reads the slab again and again while it holds it: its bytes must not change under a
// holder, whoever died or was stopped meanwhile.
//   OFFRAMP_TEST_RECHECK_FILE   a line is added to it for a slab that changed, before this program aborts
//   OFFRAMP_TEST_RECHECK_TIMES  how often a slab is read again; 20 unless said
class Rechecked final : public Processor {
  public:
    explicit Rechecked(std::unique_ptr<Processor> inner);

    void process(const SlabContents& slab, const Progress& progress, const StillCurrent& still_current) override;

  private:
    std::uint64_t hash_of(const SlabContents& slab, const Progress& progress);

    std::unique_ptr<Processor> inner_;
    std::string file_;
    std::uint64_t times_;
    RowHash hash_;
};

}  // namespace offramp::faulty
