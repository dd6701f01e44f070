#pragma once

#include <cstdint>
#include <string>

namespace offramp {

class SettingGroup;

// The model to run on each batch, and the form of its outputs.
struct ModelSettings {
    // a built-in model's name, a .safetensors file with a built-in model's weights, or a .pt2 or .pt file
    std::string model = "deeplabv3-resnet50";
    std::string weights;          // .safetensors; empty: the weights shipped with the model
    bool random_weights = false;  // use seeded random weights if there are none
    std::uint64_t seed = 0;
    std::string precision = "auto";      // "fp32", "tf32", "bf16"
    std::string memory_format = "auto";  // "contiguous", "channels-last"
    std::string transform = "none";      // "none", "cast", "class-map", "low-res"
    std::string output_dtype = "auto";   // for cast and low-res: "fp32", "fp16", "bf16"; auto: fp16, fp32
    bool confidence = false;             // class-map: adds a plane with the winning class's probability in 8 bits
    std::uint64_t copy_bytes = 0;        // model "copy": bytes per batch; 0: auto
    std::string copy_outputs;    // model "copy": shapes of one sample's outputs, "96x256x256,192x128x128"; empty: bytes
    bool deterministic = false;  // no autotuning: bits are equal in every run
    std::string cuda_graphs = "auto";  // "auto": record and replay models with many short kernels; "off"

    bool operator==(const ModelSettings&) const = default;
};

void describe_model(SettingGroup& group);

}  // namespace offramp
