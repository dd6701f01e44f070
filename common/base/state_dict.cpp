#include "common/base/state_dict.hpp"

namespace offramp {

std::string command_to_convert(const std::string& file) {
    return "python3 -c \"import torch, safetensors.torch as s; s.save_file({k: v.contiguous() for k, v in "
           "torch.load('" +
           file + "', map_location='cpu').items()}, 'weights.safetensors')\"";
}

}  // namespace offramp
