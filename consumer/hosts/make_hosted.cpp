#include "consumer/hosts/make_hosted.hpp"

#include <algorithm>

#include "common/base/error.hpp"
#include "consumer/hosts/executable.hpp"
#include "consumer/hosts/hosted_processor.hpp"
#include "consumer/hosts/shared_object.hpp"

namespace offramp {
namespace {

const offramp_processor& code_of(const ProcessorSpec& spec, const std::string& name, const offramp_processor* python) {
    if (spec.kind == ProcessorSpec::Kind::SharedObject) return open_processor(spec.what);
    if (spec.kind == ProcessorSpec::Kind::Executable) return executable_processor();
    if (python == nullptr)
        throw ConfigError("--processor " + name + " needs a Python interpreter, and this process is not one",
                          "Start offramp-consumer, which uses the interpreter of --consumer-python");
    return *python;
}

}  // namespace

std::vector<std::pair<std::string, std::string>> processor_options(std::string_view text) {
    std::vector<std::pair<std::string, std::string>> options;
    std::string pair;
    const auto take = [&] {
        const std::size_t equals = pair.find('=');
        if (equals == 0 || equals == std::string::npos)
            throw ConfigError("--processor-option '" + pair + "' is not KEY=VALUE",
                              "Give KEY=VALUE pairs, separated by commas");
        const std::string key = pair.substr(0, equals);
        if (std::ranges::find(options, key, &std::pair<std::string, std::string>::first) != options.end())
            throw ConfigError("--processor-option gives '" + key + "' twice", "Give each once");
        options.emplace_back(key, pair.substr(equals + 1));
        pair.clear();
    };
    for (std::size_t at = 0; at < text.size(); ++at) {
        if (text[at] == '\\' && at + 1 < text.size() && text[at + 1] == ',')
            pair += text[++at];
        else if (text[at] == ',')
            take();
        else
            pair += text[at];
    }
    if (!text.empty()) take();
    return options;
}

std::unique_ptr<Processor> make_hosted(const ProcessorSpec& spec, const ProcessorOptions& options,
                                       const offramp_processor* python) {
    const std::string& name = options.results.processor;
    HostedOptions given{.name = name,
                        .output = {},
                        .shared_output = {},
                        .durability = options.durability(),
                        .options = processor_options(options.settings.text("processor-option"))};
    if (!options.results.output.empty()) {
        given.output = options.output_for(name);
        given.shared_output = options.shared_output_for(name);
    }
    return std::make_unique<HostedProcessor>(code_of(spec, name, python), std::move(given));
}

void check_hosted(const RunConfig& config, const offramp_processor* python) {
    for (const ResultSettings& own : own_results(config))
        if (const auto spec = ProcessorSpec::of(own.processor))
            HostedProcessor::check(code_of(*spec, own.processor, python),
                                   {.name = own.processor,
                                    .output = own.folder_of_samples(),
                                    .shared_output = own.output,
                                    .options = processor_options(config.catalogue.text("processor-option"))});
}

}  // namespace offramp
