#pragma once

#include <memory>

#include "common/app/images/picture_list.hpp"
#include "common/app/settings/run_config.hpp"
#include "producer/device/device.hpp"
#include "producer/runner/models/model.hpp"
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
OpenedModel open_model(const RunConfig& config, const EgressTraits& traits, Device& device, Stream& compute);

// Borrows: config. `stamps`: of pictures of tiles, in a recovered run. `still_wanted` throws when the run was stopped
// meanwhile.
std::unique_ptr<BatchSource> open_source(const RunConfig& config, const OpenedModel& model, OpenedInput opened,
                                         PictureStamps stamps, StillWanted still_wanted);

}  // namespace offramp
