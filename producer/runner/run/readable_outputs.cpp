#include "producer/runner/run/readable_outputs.hpp"

#include <string>

#include "common/base/error.hpp"
#include "common/settings/processor_results.hpp"
#include "common/wire/mask_form.hpp"
#include "common/wire/output_description.hpp"
#include "common/wire/readable_output.hpp"

namespace offramp {
namespace {

std::string obstacle_to(Reads reads, const TensorSpec& output, std::uint32_t upsample_factor) {
    switch (reads) {
        case Reads::Masks:
            return obstacle_to_masks(output, upsample_factor);
        case Reads::Pictures:
            return obstacle_to_pictures(output);
        case Reads::Vectors:
            return is_vectors(output) ? "" : "needed are vectors, float32, float16 or bfloat16 [N, D]";
        case Reads::Anything:
            break;
    }
    return {};
}

}  // namespace

void require_readable_outputs(const RunConfig& config, std::span<const TensorSpec> outputs,
                              std::uint32_t upsample_factor) {
    for (const std::string& processor : config.processors()) {
        const ProcessorResults* const known = ProcessorResults::of(processor);
        if (known == nullptr) continue;
        std::string reasons;
        bool readable = false;
        for (const TensorSpec& output : outputs) {
            const std::string reason = obstacle_to(known->reads, output, upsample_factor);
            readable = readable || reason.empty();
            reasons += "; " + describe_output(output) + ": " + reason;
        }
        if (!readable)
            throw ConfigError("--processor " + processor + " finds no output of the model that it can read" + reasons,
                              "Choose another model, or another --processor: npy and safetensors take any output");
    }
}

}  // namespace offramp
