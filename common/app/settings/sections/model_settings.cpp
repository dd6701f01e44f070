#include "common/app/settings/sections/model_settings.hpp"

#include "common/app/settings/effects.hpp"
#include "common/app/settings/setting_checks.hpp"
#include "common/app/settings/setting_group.hpp"

namespace offramp {

void describe_model(SettingGroup& group) {
    SettingGroup rare = group.advanced();
    group.text("model", &ModelSettings::model, of_slabs(always), "NAME|FILE",
               std::string(kPluginName) + "; or the path of a .pt2, .pt or .safetensors file",
               "Model to run on each batch: a built-in one, the file of its weights, or a file with a whole model: an "
               "AOTInductor package (.pt2, see ./launch/offramp export) or TorchScript (.pt)",
               check_model);
    group.path("weights", &ModelSettings::weights, kKnownByItsBytes, "FILE", "the path of a .safetensors file",
               "Weights of a built-in model; default: those shipped with it");
    rare.on_off("random-weights", &ModelSettings::random_weights, kKnownByItsBytes,
                "Give a model without weights random ones from --seed, for measurements and tests");
    rare.whole("seed", &ModelSettings::seed, of_slabs(always), {0, kAnyNumber, ""},
               "Seed of random weights and synthetic input");
    group.word("precision", &ModelSettings::precision, of_slabs(always), {"auto", "fp32", "tf32", "bf16"},
               "Numeric precision of the model");
    rare.word("memory-format", &ModelSettings::memory_format, of_slabs(always), {"auto", "contiguous", "channels-last"},
              "Order of the dimensions in memory");
    group.word("transform", &ModelSettings::transform, of_slabs(always), {"none", "cast", "class-map", "low-res"},
               "Transform of the output on the device; class-map: argmax to 8 bits; low-res: the consumer does "
               "the model's last enlargement");
    rare.word("output-dtype", &ModelSettings::output_dtype, of_slabs(always), {"auto", "fp32", "fp16", "bf16"},
              "Element type of the output of the transforms cast (auto: fp16) and low-res (auto: fp32)");
    group.on_off("confidence", &ModelSettings::confidence, of_slabs(always),
                 "class-map: add a second output, the probability of each pixel's class in 8 bits");
    rare.bytes("copy-bytes", &ModelSettings::copy_bytes, of_slabs(is_copy), {1, std::int64_t{1} << 40, "auto"},
               "Bytes of a batch of the model `copy`");
    rare.text("copy-outputs", &ModelSettings::copy_outputs, of_slabs(is_copy), "SHAPES",
              "fp16 shapes of one sample, as 96x256x256,192x128x128",
              "Outputs of the model `copy`, instead of plain bytes", check_shapes);
    rare.word("cuda-graphs", &ModelSettings::cuda_graphs, kRuntime, {"auto", "off"},
              "auto: record a small model's kernels once and replay them, with one launch per batch");
    rare.on_off("deterministic", &ModelSettings::deterministic, of_slabs(always),
                "Disable autotuning: every run gives the same bits");
}

}  // namespace offramp
