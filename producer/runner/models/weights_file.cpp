#include "producer/runner/models/weights_file.hpp"

#include "common/base/remedy.hpp"

namespace offramp {

SafetensorsFile open_weights(const std::string& path) {
    return SafetensorsFile(path,
                           {.what = "the weights",
                            .hint = "Was the file copied completely? Export it again with safetensors.torch.save_file",
                            .hint_of_zip = "Convert a state dict: " + command_to_convert(path) +
                                           "; ./launch/offramp export --weights takes it as it is. Give a whole model "
                                           "as --model FILE.pt or FILE.pt2"});
}

}  // namespace offramp
