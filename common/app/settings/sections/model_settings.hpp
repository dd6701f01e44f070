#pragma once

#include <cstdint>
#include <string>

namespace offramp {

class SettingGroup;

// The model to run on each batch, and the form of its outputs.
struct ModelSettings {
    // a name of the models' table, a .safetensors file of one's weights, or a model's .pt2 or .pt
    std::string model = "deeplabv3-resnet50";
    std::string weights;          // .safetensors; empty: those that the model is shipped with
    bool random_weights = false;  // where there are none, seeded random ones
    std::uint64_t seed = 0;
    std::string precision = "auto";      // "fp32", "tf32", "bf16"
    std::string memory_format = "auto";  // "contiguous", "channels-last"
    std::string transform = "none";      // "none", "cast", "class-map", "low-res"
    std::string output_dtype = "auto";   // of cast and low-res: "fp32", "fp16", "bf16"; auto: fp16, fp32
    bool confidence = false;             // class-map: a second plane, the winning class's probability in 8 bits
    std::uint64_t copy_bytes = 0;        // model "copy": bytes of a batch; 0: auto
    std::string copy_outputs;    // model "copy": shapes of one sample's outputs, "96x256x256,192x128x128"; empty: bytes
    bool deterministic = false;  // no autotuning: equal bits from run to run
    std::string cuda_graphs = "auto";  // "auto": models of many short kernels are recorded and replayed; "off"

    bool operator==(const ModelSettings&) const = default;
};

void describe_model(SettingGroup& group);

}  // namespace offramp
