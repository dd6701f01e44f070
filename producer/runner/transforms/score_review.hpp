#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "common/numerics/foreground_score.hpp"
#include "common/wire/slab_layout.hpp"
#include "common/wire/slab_view.hpp"
#include "producer/egress/output_batch.hpp"

namespace offramp {

// Reviews the outputs of one-channel networks, once they are in a slab and before publication. An item with an
// impossible score is invalid: its row becomes empty, and the item is skipped like an unreadable one. Scores that are
// not probabilities from the first item on, or in most items when too many are skipped, are undeclared logits: that
// ends the run.
//
// Borrows the objects in its signatures. Thread: one at a time, the one that sees copies done. Blocks: never.
class ScoreReview final : public RowReview {
  public:
    // This many in a row are not an accident.
    static constexpr std::uint64_t kAllWrong = 8;

    struct Settings {
        ForegroundScale scale;
        // True if processors read one-channel outputs as a foreground. Outputs that became class maps on the device are
        // always reviewed.
        bool in_slabs = false;
        std::uint64_t passed_before = 0;  // items, in earlier runs and by earlier producers
        // Skips one more item. True: the limit is exceeded now.
        std::function<bool(std::uint64_t item, const std::string& reason)> skip;
        // Ends the run for that reason.
        std::function<void()> too_many;
    };
    ScoreReview(const SlabLayout& layout, Settings settings);

    bool passes(const OutputBatch& batch, std::uint32_t row, SlabWriter& slab, std::uint32_t slab_row) override;
    // Errors: ConfigError when scores are not probabilities, with the flag for logits.
    void end_slab() override;

  private:
    struct Output {
        std::size_t tensor = 0;
        DType dtype;
        std::string described;
    };
    bool rejects(const RowInfo& row, const std::string& output, float outlier);

    const Settings settings_;
    std::vector<Output> outputs_;       // the layout's outputs of one channel
    std::uint64_t looked_at_;           // items, including those that passed before
    std::uint64_t no_probability_ = 0;  // of them
    std::string first_;                 // the first of these
    bool too_many_ = false;
};

}  // namespace offramp
