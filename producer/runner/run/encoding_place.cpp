#include "producer/runner/run/encoding_place.hpp"

#include <string>
#include <utility>

#include "common/app/settings/effects.hpp"
#include "common/app/settings/sections.hpp"
#include "common/base/error.hpp"

namespace offramp {
namespace {

struct Obstacle {
    std::string what, fix;
};

// Consumers give a picture its proportions, and other processors read numbers.
std::optional<Obstacle> obstacle_to_encoding(const RunConfig& config) {
    if (config.processor != "image")
        return Obstacle{"--processor is " + config.processor, "Give --processor image alone, or leave --encode out"};
    if (const std::string& format = config.catalogue.text("image-format"); format != "jpeg")
        return Obstacle{"--image-format is " + format, "Give --image-format jpeg, or leave --encode out"};
    if (keeps_shapes(config))
        return Obstacle{"with --resize none, pictures differ in size", "Leave --encode or --resize out"};
    if (config.catalogue.text("picture-size") != "model" && config.tile == 0 && gives_pictures(config.source))
        return Obstacle{"consumers resize pictures to their originals' proportions",
                        "Give --picture-size model, or leave --encode out"};
    return std::nullopt;
}

}  // namespace

RunConfig settle_encoding(RunConfig config, const std::function<void()>& require_encoder) {
    const std::string given = config.catalogue.text("encode");
    if (given == "cpu") return config;
    const auto obstacle = obstacle_to_encoding(config);
    if (given == "gpu" && obstacle) throw ConfigError("--encode gpu: " + obstacle->what, obstacle->fix);
    std::string place = obstacle ? "cpu" : "gpu";
    try {
        if (!obstacle) require_encoder();
    } catch (const ConfigError&) {
        if (given != "auto") throw;
        place = "cpu";
    }
    config.catalogue.put("encode", std::move(place));
    return config;
}

std::optional<PixelRange> encoded_range(const RunConfig& config) {
    if (config.catalogue.text("encode") != "gpu") return std::nullopt;
    return PixelRange::named(config.catalogue.text("image-range"));
}

int image_quality(const RunConfig& config) { return static_cast<int>(config.catalogue.number("image-quality")); }

}  // namespace offramp
