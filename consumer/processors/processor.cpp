#include "consumer/processors/processor.hpp"

#include <algorithm>

#include "common/base/error.hpp"
#include "common/program/next_place.hpp"
#include "consumer/processors/segmentation/segmentation_output.hpp"
#include "consumer/sinks/files/atomic_file.hpp"

namespace offramp {
namespace {

std::unique_ptr<Processor> make_one(const std::string& name, const ProcessorOptions& options) {
    std::string known;
    for (const ProcessorEntry& entry : ProcessorEntry::all()) {
        if (entry.name == name) return entry.make(options);
        known += (known.empty() ? "" : ", ") + std::string(entry.name);
    }
    throw ConfigError("--processor is '" + name + "'", "Known: " + known + "; several with commas");
}

// Several processors on each slab, in their order. Every one commits what is its own; a death between two of them
// leaves the first one's results, which the next consumer commits again, to no effect.
class ProcessorChain final : public Processor {
  public:
    ProcessorChain(const RunConfig& config, const std::string& next_place) {
        for (const RunConfig& own : configs_of(config))
            processors_.push_back(
                {own.processor,
                 make_one(own.processor, {.config = &own, .chain = &processors_, .next_place = next_place})});
    }

    void process(const SlabContents& slab, const Progress& progress, const StillCurrent& still_current) override {
        for (const NamedProcessor& each : processors_) each.processor->process(slab, progress, still_current);
    }

  private:
    std::vector<NamedProcessor> processors_;
};

// "auto" is no plug-in: it leaves what one of the two does that it becomes.
[[maybe_unused]] constexpr std::string_view kAutoResults = R"settings(
[results]
of = "auto"
endings = ".png, .npy"
settings = "mask-size"
)settings";

// What a model from a file gives is known when it has been loaded: masks where its outputs say what class a pixel is
// of, else arrays.
class ChosenByTheOutputs final : public Processor {
  public:
    explicit ChosenByTheOutputs(const ProcessorOptions& options) : config_(*options.config) {
        options.output_for("mask-png");
    }

    void process(const SlabContents& slab, const Progress& progress, const StillCurrent& still_current) override {
        if (!chosen_) {
            config_.processor = segmentation_outputs_if_any(slab).empty() ? "npy" : "mask-png";
            chosen_ = make_one(config_.processor, {.config = &config_});
        }
        chosen_->process(slab, progress, still_current);
    }

  private:
    RunConfig config_;
    std::unique_ptr<Processor> chosen_;
};

}  // namespace

const std::string& ProcessorOptions::output_for(std::string_view processor) const {
    if (config->output.empty())
        throw ConfigError("processor " + std::string(processor) + " needs --output", "Give the folder for its files");
    require_writable_folder(config->output);
    return config->output;
}

std::string ProcessorOptions::shared_output_for(std::string_view processor) const {
    return folder_in(output_for(processor), next_place);
}

std::unique_ptr<Processor> make_processor(const std::string& names, const ProcessorOptions& options) {
    expect(options.config != nullptr, "a processor is made from a configuration");
    if (names == "auto") return std::make_unique<ChosenByTheOutputs>(options);
    const std::string next_place =
        options.config->output.empty() ? std::string() : next_place_of(options.config->output);
    if (names.find(',') == std::string::npos)
        return make_one(names, {.config = options.config, .chain = options.chain, .next_place = next_place});
    RunConfig config = *options.config;
    config.processor = names;
    return std::make_unique<ProcessorChain>(config, next_place);
}

std::vector<RunConfig> configs_of(const RunConfig& config) {
    const std::vector<std::string> names = config.processors();
    if (names.size() == 1) return {config};
    std::vector<RunConfig> configs;
    for (const std::string& name : names) {
        if (std::ranges::any_of(configs, [&](const RunConfig& other) { return other.processor == name; }))
            throw ConfigError("--processor names '" + name + "' twice", "Name each once");
        RunConfig& own = configs.emplace_back(config);
        own.processor = name;
        if (!own.output.empty()) own.output += "/" + name;
    }
    return configs;
}

}  // namespace offramp
