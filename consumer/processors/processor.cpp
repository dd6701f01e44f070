#include "consumer/processors/processor.hpp"

#include "common/base/error.hpp"

namespace offramp {

std::unique_ptr<Processor> make_processor(const std::string& name, const ProcessorOptions& options) {
    expect(options.config != nullptr, "a processor is made from a configuration");
    std::string known;
    for (const ProcessorEntry& entry : ProcessorEntry::all()) {
        if (entry.name == name) return entry.make(options);
        known += (known.empty() ? "" : ", ") + std::string(entry.name);
    }
    throw ConfigError("--processor is '" + name + "'", "Known: " + known);
}

}  // namespace offramp
