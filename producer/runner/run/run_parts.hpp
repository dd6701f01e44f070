#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/app/images/picture_list.hpp"
#include "common/app/settings/run_config.hpp"
#include "common/wire/tensor_spec.hpp"
#include "producer/device/device.hpp"
#include "producer/runner/models/model.hpp"
#include "producer/runner/models/model_metadata.hpp"
#include "producer/runner/run/egress_strategy.hpp"
#include "producer/runner/sources/batch_source.hpp"
#include "producer/runner/sources/opened_input.hpp"
#include "producer/runner/transforms/output_transformer.hpp"

// Device, model and source of a run, made from its settings; facts for the user go to the log. Thread: the model's.
// Blocks: while files are read. Errors: ConfigError, and those of the parts.
namespace offramp {

std::unique_ptr<Device> open_device_of(const RunConfig& config);

struct OpenedModel {
    std::unique_ptr<Model> model;
    std::unique_ptr<OutputTransformer> transformer;
};
// Borrows: device and stream.
// `metadata`: settled_metadata().
OpenedModel open_model(const RunConfig& config, ModelMetadata metadata, const EgressTraits& traits, Device& device,
                       Stream& compute, const OpenedInput& from);

// The shapes of an input whose items keep theirs; null: all have one shape. `metadata`: settled_metadata(); gets the
// shape of a sample if only the arrays have it. `kept`: the file of the run to recover (kept_shapes.hpp); empty: the
// run begins. Errors: ConfigError: no item can be read (BadInput); such input does not go with the model (Usage). Error
// (System): the largest item exceeds the memory. Those of add_kept_shapes().
std::shared_ptr<const ItemShapes> own_shapes(const RunConfig& config, ModelMetadata& metadata,
                                             const OpenedInput& opened, const Device& device, const std::string& kept,
                                             const StillWanted& still_wanted);

// Borrows: config. `stamps`: of pictures of tiles, in a recovered run. `still_wanted` throws when the run was stopped
// meanwhile.
std::unique_ptr<BatchSource> open_source(const RunConfig& config, const OpenedModel& model, OpenedInput opened,
                                         PictureStamps stamps, StillWanted still_wanted);

// Checks that each processor of the run finds an output that it can read; otherwise consumers would fail on the first
// slab. Pure. `upsample_factor`: the enlargement of the outputs. Errors: ConfigError (Usage) with the reason for each
// output.
void require_readable_outputs(const RunConfig& config, std::span<const TensorSpec> outputs,
                              std::uint32_t upsample_factor);

// Warnings about a run's outputs, in full sentences. They name outputs that no processor writes, and outputs read as
// masks that probably are not: their proportions differ from the model's pictures (`input`: [N, 3, H, W], else without
// dimensions), or they are queries and prototypes of masks. Pure.
std::vector<std::string> warnings_about_outputs(const RunConfig& config, std::span<const TensorSpec> outputs,
                                                std::uint32_t upsample_factor, const TensorSpec& input);

// Refuses results inside the input folder, where the next run would read them, and results with the name of an input
// file. Checks names only: results of an item are KEY.SOMETHING in the output folder, or in each processor's folder if
// there are several. Cheap if the output folder contains no item. `config` is resolved. Errors: ConfigError naming
// both.
void require_results_apart(const RunConfig& config, const BatchSource& source);

}  // namespace offramp
