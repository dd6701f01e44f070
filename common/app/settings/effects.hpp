#pragma once

#include <functional>
#include <utility>

#include "common/app/settings/run_config.hpp"

namespace offramp {

// The effect of another value of a setting. Each setting declares it once, where it is defined, and all comparisons of
// two programs' settings derive from it:
//
//   what must agree                                     | settings
//   --resume: another run gives the same results        | makes_results()
//   (producer/runner/checkpoint/checkpoint_file.hpp)
//   recover: another producer goes on with this memory  | outlives_producer()  (producer/runner/run/work_record)
//   Hello: a consumer's results are the run's           | makes_work()         (SlabWork)
//
// and a consumer takes settings that it was not given from its run: is_the_runs() (kept_settings).
struct Effect {
    enum class On {
        Program,  // one program alone: where it logs, which run it belongs to, what is asked of it
        Runtime,  // how a run goes, and nothing that comes out of it: its pace, patience and reports
        Memory,   // its slabs, and who may see them
        Items,    // which items there are; --resume knows them by their names
        Place,    // where its results are, and how safe there
        Results,  // what its results are
    };
    using When = std::function<bool(const RunConfig& config)>;

    On on;
    When in_slabs{};       // Results: in which runs what slabs hold follows from it; none: in no run
    When in_processing{};  // in which runs a processor makes something of a slab that follows from it

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
// --resume looks into the file that is chosen.
inline const Effect kKnownByItsBytes{.on = Effect::On::Results};

inline Effect of_slabs(Effect::When when, Effect::When in_processing = nullptr) {
    return {.on = Effect::On::Results, .in_slabs = std::move(when), .in_processing = std::move(in_processing)};
}
inline Effect of_processing(Effect::When when) { return of_slabs(nullptr, std::move(when)); }
// Effect on items whose originals are read again.
Effect of_items_at_hand();

// In which runs.
bool always(const RunConfig& config);
bool is_copy(const RunConfig& config);
bool has_a_model(const RunConfig& config);
bool is_synthetic(const RunConfig& config);
bool is_sharded(const RunConfig& config);
bool is_class_map(const RunConfig& config);
bool cuts_pictures(const RunConfig& config);
bool is_bicubic(const RunConfig& config);
bool is_tiled(const RunConfig& config);
bool is_chunked(const RunConfig& config);
// Otherwise a batch is only the number of items that go through the model together.
bool shows_its_batches(const RunConfig& config);
// The same for the items that are computed together.
bool is_by_length(const RunConfig& config);
// A processor takes an output of one channel for the foreground's.
bool separates_foreground(const RunConfig& config);
// A processor makes a row of each item, also of skipped ones.
bool records_items(const RunConfig& config);
// A processor looks at the pictures themselves, or at how they were cut for the model.
bool reads_pictures(const RunConfig& config);
bool reads_cut_pictures(const RunConfig& config);
// A processor passes on the input's data of each item, from a table of texts.
bool reads_beside_texts(const RunConfig& config);
// A processor cannot store an item without the input's data of it.
bool reads_columns(const RunConfig& config);
// A processor reads the input: its pictures, or the data of its items.
bool reads_input(const RunConfig& config);
// The run has a processor that reads this setting: the setting is in the processor's file, or is named by its
// [results].
Effect::When has_reader_of(const DeclaredSetting& setting);

}  // namespace offramp
