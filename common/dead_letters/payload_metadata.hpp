#pragma once

#include <map>
#include <string>
#include <vector>

#include "common/safetensors/safetensors_header.hpp"
#include "common/wire/slab_view.hpp"

namespace offramp {

// The description in a dead letter's payload besides the tensors' bytes, as text in the file's metadata, so that the
// file alone is enough to process the slab again.
inline constexpr const char* kPayloadMetadata = "offramp";
inline constexpr int kPayloadMetadataFormat = 1;

// The entries of the slab's tensors in the file. .safetensors has row-major tensors only: one in another order
// (channels-last) is entered with its dimensions in memory order, so that its bytes equal the slab's. The metadata has
// the true shape and strides. An element type that the format does not know is entered as bytes.
std::vector<TensorEntry> tensor_entries(const SlabContents& slab);

std::string payload_metadata(const SlabContents& slab);
// The slab but its tensors' bytes, and by which names those stand in the file. Errors: ProtocolError with the field.
struct NotedSlab {
    SlabContents slab;
    std::vector<std::string> stored_as;
};
NotedSlab read_payload_metadata(const std::string& metadata);

}  // namespace offramp
