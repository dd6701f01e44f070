#pragma once

#include <functional>
#include <optional>

#include "common/app/settings/run_config.hpp"
#include "common/numerics/pixel_range.hpp"

// Where the files of processor `image` are encoded (--encode): in consumers, or on the GPU.
namespace offramp {

// Replaces "auto" by "gpu" if the settings and the machine allow it, otherwise by "cpu". `config`: resolved.
// `require_encoder`: called if the settings allow it; throws ConfigError if the GPU does not encode. Errors:
// ConfigError (Usage): "gpu" was given, and they do not allow it.
RunConfig settle_encoding(RunConfig config, const std::function<void()>& require_encoder);

// The values of black and white in pictures that are encoded on the GPU; nothing: none are. `config`: settled.
std::optional<PixelRange> encoded_range(const RunConfig& config);
int image_quality(const RunConfig& config);

}  // namespace offramp
