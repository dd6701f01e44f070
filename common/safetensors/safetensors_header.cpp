#include "common/safetensors/safetensors_header.hpp"

#include <cstring>
#include <nlohmann/json.hpp>

#include "common/json/json_text.hpp"

namespace offramp {

std::string safetensors_header(std::span<const TensorEntry> tensors,
                               const std::map<std::string, std::string>& metadata) {
    nlohmann::ordered_json header = nlohmann::ordered_json::object();
    if (!metadata.empty()) header["__metadata__"] = metadata;
    std::uint64_t end = 0;
    for (const TensorEntry& tensor : tensors) {
        header[tensor.name] = {
            {"dtype", tensor.dtype}, {"shape", tensor.shape}, {"data_offsets", {end, end + tensor.bytes}}};
        end += tensor.bytes;
    }
    std::string text = json_text(header);
    std::uint64_t length = text.size();
    const std::size_t over = (sizeof length + length) % kSafetensorsAlignment;
    text.append(over == 0 ? 0 : kSafetensorsAlignment - over, ' ');
    length = text.size();
    std::string front(sizeof length, '\0');
    std::memcpy(front.data(), &length, sizeof length);  // x86-64 and arm64 Linux are little-endian, as the format
    return front + text;
}

}  // namespace offramp
