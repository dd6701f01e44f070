#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/app/settings/declared_setting.hpp"
#include "common/app/settings/processor_results.hpp"
#include "common/app/settings/sections.hpp"
#include "common/base/files.hpp"
#include "common/numerics/foreground_score.hpp"
#include "common/wire/slab_view.hpp"
#include "consumer/processors/results/run_output.hpp"
#include "consumer/session/slab_processor.hpp"

namespace offramp {

struct RunConfig;

// Turns the samples of one slab into results. When process() returns, the results are committed: the slab may be reused
// and the samples count as done.
//
// The guarantee of the whole system rests on this rule: delivery is at least once, so process() must be idempotent. If
// it is killed at any point and run again in another process, the results must be the same. Write files by temporary
// name and rename (sinks/files/atomic_file.hpp), named by sample key. Write appended formats as one segment per
// delivery (sinks/segments/segment_file.hpp). The grouping of samples into slabs must change neither names nor bytes.
//
// Borrows the slab, read-only, for the call. Thread: one. Errors: Error with CannotWrite or SinkUnavailable; any
// exception ends this consumer, and its slab goes to another one. Skip empty rows (SampleView::empty).
class Processor : public SlabProcessor {
  public:
    // The files that process() writes for one sample, as paths below the output folder; for listings. Do not call it
    // for an empty row.
    virtual std::vector<std::string> files_of(const SlabContents& /*slab*/, const SampleView& /*sample*/) const {
        return {};
    }
};

// One of several processors that work on each slab.
struct NamedProcessor {
    std::string name;
    std::unique_ptr<Processor> processor;
};

// Makes a custom processor (consumer/hosts). Errors: as ProcessorEntry::make.
struct ProcessorOptions;
using MakeHosted =
    std::function<std::unique_ptr<Processor>(const ProcessorSpec& spec, const ProcessorOptions& options)>;

// The arguments for creating a processor, which borrows them during its creation.
struct ProcessorOptions {
    const CatalogueValues& settings;  // the processor's own settings, by flag (launch/guide/processors.md)
    const InputSettings& input;       // for processors that read the run's input again
    const ResultSettings& results;    // with the processor's own name and folder (own_results)
    // All processors of each slab, if there are several; complete when the first slab arrives. Outlives the processor.
    const std::vector<NamedProcessor>* chain = nullptr;
    std::string run_dir{};               // run directory of the slabs' run
    const MakeHosted* hosted = nullptr;  // null: only built-in processors

    Durability durability() const { return results.durable ? Durability::PowerCut : Durability::Process; }
    // The folder for the files of `processor`. Errors: ConfigError without --output; SystemError with CannotWrite when
    // it cannot be written.
    const std::string& output_for(std::string_view processor) const;
    // The folder of the outputs that all consumers append to (RunOutput). Errors: as above.
    std::string shared_output_for(std::string_view processor) const;
    // How to read the output of a one-channel network.
    ForegroundScale foreground_scale() const { return ForegroundScale::of(results.scores, results.threshold); }
};

struct ProcessorEntry {
    std::string_view name;
    // Errors: ConfigError when the settings do not fit, or, with CannotWrite, when the output folder cannot be written.
    std::unique_ptr<Processor> (*make)(const ProcessorOptions& options);
    // Null for a processor that writes only files of single samples, or no results. `settings`: the processor's own.
    std::unique_ptr<RunOutput> (*run_output)(const CatalogueValues& settings);

    static std::span<const ProcessorEntry> all();
};

// Makes the named processors: one name, or several with commas. Several work on each slab in turn, each with its own
// folder below the output (own_results). "auto" must stand alone: it means mask-png, or npy if no output of the first
// slab can become masks. Errors: ConfigError with the known names.
std::unique_ptr<Processor> make_processor(const std::string& names, const RunConfig& config,
                                          const MakeHosted* hosted = nullptr);

// The settings of each processor in run.processor. One processor gets the settings unchanged. Each of several gets its
// own name and the output OUTPUT/NAME, so that no two write the same file. Errors: ConfigError for a repeated name.
std::vector<ResultSettings> own_results(const ResultSettings& run);

}  // namespace offramp
