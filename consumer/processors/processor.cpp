#include "consumer/processors/processor.hpp"

#include <algorithm>
#include <utility>

#include "common/app/settings/processor_results.hpp"
#include "common/app/settings/run_config.hpp"
#include "common/base/error.hpp"
#include "consumer/processors/segmentation/segmentation_output.hpp"
#include "consumer/sinks/files/atomic_file.hpp"

namespace offramp {
namespace {

std::unique_ptr<Processor> make_one(const std::string& name, const ProcessorOptions& options) {
    if (const auto spec = ProcessorSpec::of(name)) {
        if (options.hosted == nullptr)
            throw ConfigError("--processor " + name + " runs in consumers only", "Choose a built-in processor here");
        return (*options.hosted)(*spec, options);
    }
    std::string known;
    for (const ProcessorEntry& entry : ProcessorEntry::all()) {
        if (entry.name == name) return entry.make(options);
        known += (known.empty() ? "" : ", ") + std::string(entry.name);
    }
    throw ConfigError("--processor '" + name + "' is unknown", "Known: " + known + "; several with commas");
}

// Runs several processors on each slab, in order. Each commits its own results. A death between two of them leaves the
// first one's results, which the next consumer commits again without effect.
class ProcessorChain final : public Processor {
  public:
    ProcessorChain(const RunConfig& config, const MakeHosted* hosted) {
        for (const ResultSettings& own : own_results(config))
            processors_.push_back({own.processor, make_one(own.processor, {.settings = config.catalogue,
                                                                           .input = config,
                                                                           .results = own,
                                                                           .chain = &processors_,
                                                                           .run_dir = config.run_dir,
                                                                           .hosted = hosted})});
    }

    void process(const SlabContents& slab, const Progress& progress, const StillCurrent& still_current) override {
        for (const NamedProcessor& each : processors_) each.processor->process(slab, progress, still_current);
    }

  private:
    std::vector<NamedProcessor> processors_;
};

// The outputs of a model file are known only after loading: masks if they have the class of each pixel, else arrays.
class ChosenByTheOutputs final : public Processor {
  public:
    explicit ChosenByTheOutputs(const RunConfig& config)
        : settings_(config.catalogue), input_(config), results_(config) {
        options().output_for("mask-png");
    }

    void process(const SlabContents& slab, const Progress& progress, const StillCurrent& still_current) override {
        if (!chosen_) {
            results_.processor = segmentation_outputs_if_any(slab).empty() ? "npy" : "mask-png";
            chosen_ = make_one(results_.processor, options());
        }
        chosen_->process(slab, progress, still_current);
    }

  private:
    ProcessorOptions options() const { return {.settings = settings_, .input = input_, .results = results_}; }

    CatalogueValues settings_;
    InputSettings input_;
    ResultSettings results_;
    std::unique_ptr<Processor> chosen_;
};

}  // namespace

const std::string& ProcessorOptions::output_for(std::string_view processor) const {
    if (results.output.empty())
        throw ConfigError("processor " + std::string(processor) + " needs --output", "Give the folder for its files");
    require_writable_folder(results.folder_of_samples());
    return results.folder_of_samples();
}

std::string ProcessorOptions::shared_output_for(std::string_view processor) const {
    if (!results.samples_folder.empty()) require_writable_folder(results.output);
    return results.samples_folder.empty() ? output_for(processor) : results.output;
}

std::unique_ptr<Processor> make_processor(const std::string& names, const RunConfig& config, const MakeHosted* hosted) {
    if (names == "auto") return std::make_unique<ChosenByTheOutputs>(config);
    if (names.find(',') == std::string::npos) {
        const std::vector<ResultSettings> own = own_results(config);
        return make_one(names, {.settings = config.catalogue,
                                .input = config,
                                .results = own.front(),
                                .run_dir = config.run_dir,
                                .hosted = hosted});
    }
    RunConfig named = config;
    named.processor = names;
    return std::make_unique<ProcessorChain>(named, hosted);
}

std::vector<ResultSettings> own_results(const ResultSettings& run) {
    const std::vector<std::string> names = run.processors();
    if (names.size() == 1 && run.group.empty()) return {run};
    std::vector<ResultSettings> each;
    for (const std::string& name : names) {
        ResultSettings own = run;
        own.processor = name;
        own.output = run.results_folder(run.output, name);
        own.samples_folder = run.results_folder(run.samples_folder, name);
        if (std::ranges::any_of(each, [&](const ResultSettings& other) { return other.processor == name; }))
            throw ConfigError("--processor names '" + name + "' twice", "Name each once");
        if (!own.output.empty() &&
            std::ranges::any_of(each, [&](const ResultSettings& other) { return other.output == own.output; }))
            throw ConfigError("two processors of --processor would write to " + own.output,
                              "Give their files or functions different names");
        each.push_back(std::move(own));
    }
    return each;
}

}  // namespace offramp
