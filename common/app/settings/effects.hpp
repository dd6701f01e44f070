#pragma once

#include <functional>
#include <utility>

#include "common/app/settings/run_config.hpp"

namespace offramp {

// What changes when a setting has another value. Each setting declares its effect once, with its definition, and all
// comparisons of two programs' settings use it:
//
//   what must agree                                     | settings
//   --resume: another run gives the same results        | makes_results()
//   (producer/runner/checkpoint/checkpoint_file.hpp)
//   recover: another producer goes on with this memory  | outlives_producer()  (producer/runner/run/work_record)
//   Hello: a consumer's results are the run's           | makes_work()         (SlabWork)
//
// A consumer takes settings that were not given to it from its run: is_the_runs() (kept_settings).
struct Effect {
    enum class On {
        Program,  // a single program: its log, its run, its action
        Runtime,  // how a run proceeds, but not its results: pace, patience, reports
        Memory,   // the run's slabs, and who may read them
        Items,    // the set of items; --resume identifies items by name
        Place,    // the location of the results, and their durability
        Results,  // the contents of the results
    };
    using When = std::function<bool(const RunConfig& config)>;

    On on;
    When in_slabs{};       // Results: the runs in which it changes slabs' contents; null: never
    When in_processing{};  // the runs in which it changes what a processor makes of a slab

    bool is_the_runs() const { return on != On::Program; }
    bool outlives_producer() const { return on != On::Program && on != On::Runtime; }
    bool makes_results(const RunConfig& config) const {
        return on == On::Results && (holds(in_slabs, config) || holds(in_processing, config));
    }
    bool makes_work(const RunConfig& config) const { return on == On::Place || holds(in_processing, config); }

  private:
    static bool holds(const When& when, const RunConfig& config) { return when != nullptr && when(config); }
};

struct DeclaredSetting;

inline const Effect kProgram{.on = Effect::On::Program};
inline const Effect kRuntime{.on = Effect::On::Runtime};
inline const Effect kMemory{.on = Effect::On::Memory};
inline const Effect kItems{.on = Effect::On::Items};
inline const Effect kPlace{.on = Effect::On::Place};
// --resume compares the chosen file's contents.
inline const Effect kKnownByItsBytes{.on = Effect::On::Results};

inline Effect of_slabs(Effect::When when, Effect::When in_processing = nullptr) {
    return {.on = Effect::On::Results, .in_slabs = std::move(when), .in_processing = std::move(in_processing)};
}
inline Effect of_processing(Effect::When when) { return of_slabs(nullptr, std::move(when)); }
// The effect of a setting that changes items whose originals are read again.
Effect of_items_at_hand();

// Conditions for Effect::When.
bool always(const RunConfig& config);
bool is_copy(const RunConfig& config);
bool has_a_model(const RunConfig& config);
bool is_synthetic(const RunConfig& config);
bool is_sharded(const RunConfig& config);
bool is_class_map(const RunConfig& config);
bool has_groups(const RunConfig& config);
bool cuts_pictures(const RunConfig& config);
bool keeps_shapes(const RunConfig& config);
bool is_bicubic(const RunConfig& config);
bool decodes_on_gpu(const RunConfig& config);
bool is_tiled(const RunConfig& config);
bool is_chunked(const RunConfig& config);
bool chooses_outputs(const RunConfig& config);
// True if the batch size shows in the results. Otherwise it is only the number of items that the model computes
// together.
bool shows_its_batches(const RunConfig& config);
// The same for the number of items that are computed together (--by-length).
bool is_by_length(const RunConfig& config);
// A processor interprets a one-channel output as foreground scores.
bool separates_foreground(const RunConfig& config);
// A processor writes a row for each item, including skipped items.
bool records_items(const RunConfig& config);
// A processor reads the pictures themselves, or their crop for the model.
bool reads_pictures(const RunConfig& config);
bool reads_cut_pictures(const RunConfig& config);
// A processor passes on each item's data from a text table.
bool reads_beside_texts(const RunConfig& config);
// A processor cannot store an item without the item's input data.
bool reads_columns(const RunConfig& config);
// A processor reads the input: pictures, or items' data.
bool reads_input(const RunConfig& config);
// The run has a processor that reads this setting: the processor's file declares it, or the processor's [results] names
// it.
Effect::When has_reader_of(const DeclaredSetting& setting);

}  // namespace offramp
