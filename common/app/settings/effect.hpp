#pragma once

#include <functional>

#include "common/app/settings/run_config.hpp"

namespace offramp {

// The effect of another value of a setting. Each setting declares it once, where it is defined, and all comparisons of
// two programs' settings derive from it:
//
//   what must agree                                     | settings
//   --resume: another run gives the same results        | makes_results()
//   (producer/runner/checkpoint/checkpoint_identity)
//   recover: another producer goes on with this memory  | outlives_producer()  (producer/runner/run/recovery_checks)
//   Hello: a consumer's results are the run's           | makes_work()         (slab_work)
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

}  // namespace offramp
