#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/app/settings/catalogue_values.hpp"
#include "common/app/settings/parsed_values.hpp"
#include "common/app/settings/sections/input_settings.hpp"
#include "common/app/settings/sections/result_settings.hpp"
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
// The guarantee of the whole system rests on this: delivery is at least once, so process() must be idempotent. Killed
// at any point and run again, in another process, the results are the same: files by temporary name and rename
// (sinks/files/atomic_file.hpp), named by sample key; appended formats as one segment a delivery
// (sinks/segments/segment_file.hpp). Grouping of samples into slabs changes neither names nor bytes.
//
// Borrows the slab, read-only, for the call. Thread: one. Errors: Error with CannotWrite or SinkUnavailable; any
// exception ends this consumer, whose slab then goes to another one. Empty rows (SampleView::empty) are skipped.
class Processor : public SlabProcessor {
  public:
    // The files that process() leaves for a sample alone, as paths below the output folder; for listings. Not
    // of an empty row.
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
    const CatalogueValues& settings;  // what it declares for itself, by flag (launch/guide/processors.md)
    const InputSettings& input;       // for those that look at the run's input again
    const ResultSettings& results;    // with its own name and folder (own_results)
    // All that work on each slab, where there are several; whole when the first slab comes. Outlives the processor.
    const std::vector<NamedProcessor>* chain = nullptr;
    std::string run_dir{};               // of the run whose slabs it gets
    const MakeHosted* hosted = nullptr;  // null: only ours

    Durability durability() const { return results.durable ? Durability::PowerCut : Durability::Process; }
    // The folder for the files of a processor that leaves some, `processor`. Errors: ConfigError without --output;
    // SystemError with CannotWrite when it cannot be written.
    const std::string& output_for(std::string_view processor) const;
    // The folder for what all consumers append to together (RunOutput). Errors: as above.
    std::string shared_output_for(std::string_view processor) const;
    // How the output of a network of one channel is read.
    ForegroundScale foreground_scale() const { return ForegroundScale::of(results.scores, results.threshold); }
};

struct ProcessorEntry {
    std::string_view name;
    // Errors: ConfigError when the settings do not fit (no --output, an output folder that cannot be written:
    // CannotWrite).
    std::unique_ptr<Processor> (*make)(const ProcessorOptions& options);
    // Null for a processor whose results are files of single samples, or none. `settings`: what it declares for itself.
    std::unique_ptr<RunOutput> (*run_output)(const CatalogueValues& settings);

    static std::span<const ProcessorEntry> all();
};

// The processors of these names: one, or several with commas, which then work on each slab one after the other, each
// with its own folder below the output (own_results). "auto",
// alone: mask-png, or npy where no output of the first slab can become masks. Errors: ConfigError with the known names.
std::unique_ptr<Processor> make_processor(const std::string& names, const RunConfig& config,
                                          const MakeHosted* hosted = nullptr);

// For each of the processors that run.processor names: for one, the settings as they are; for several, with its own
// name and the output OUTPUT/NAME, so that no two of them ever write the same file. Errors: ConfigError for a name
// given twice.
std::vector<ResultSettings> own_results(const ResultSettings& run);

}  // namespace offramp
