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

// Looks at what networks of one channel gave, once it is in a slab and before anybody gets it. An item with a score
// that cannot be means nothing: its row becomes empty, and it is skipped like one that could not be read. Scores that
// are not probabilities from the first item on, or in most items when too many are skipped, are logits that nobody told
// of: that ends the run.
//
// Borrows what its functions name. Thread: one at a time, that which sees copies done. Blocks: never.
class ScoreReview final : public RowReview {
  public:
    // So many in a row are not an accident.
    static constexpr std::uint64_t kAllWrong = 8;

    struct Settings {
        ForegroundScale scale;
        // Whether processors take outputs of one channel for the foreground's. What the device made class maps of is
        // looked at in any case.
        bool in_slabs = false;
        std::uint64_t passed_before = 0;  // items, in runs and by producers before
        // One more item is skipped. True: more are by now than may be.
        std::function<bool(std::uint64_t item, const std::string& reason)> skip;
        // Ends the run for that.
        std::function<void()> too_many;
    };
    ScoreReview(const SlabLayout& layout, Settings settings);

    bool passes(const OutputBatch& batch, std::uint32_t row, SlabWriter& slab, std::uint32_t slab_row) override;
    // Errors: ConfigError when scores are not probabilities, with the flag that says so.
    void end_slab() override;

  private:
    struct Output {
        std::size_t tensor = 0;
        DType dtype;
        std::string described;
    };
    bool rejects(const RowInfo& row, const std::string& output, float outlier);

    const Settings settings_;
    std::vector<Output> outputs_;       // of the layout: those of one channel
    std::uint64_t looked_at_;           // items, with those that passed before
    std::uint64_t no_probability_ = 0;  // of them
    std::string first_;                 // the first of these
    bool too_many_ = false;
};

}  // namespace offramp
