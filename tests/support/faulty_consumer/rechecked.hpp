#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "consumer/processors/processor.hpp"
#include "consumer/processors/raw/row_chunks.hpp"

namespace offramp::faulty {

// Runs `inner` and rereads the slab while it holds it. The bytes must not change under a holder, whichever process
// died or stopped meanwhile.
//   OFFRAMP_TEST_RECHECK_FILE   gets a line for a changed slab, before this program aborts
//   OFFRAMP_TEST_RECHECK_TIMES  number of rereads per slab [20]
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
