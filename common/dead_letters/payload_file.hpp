#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/safetensors/safetensors_file.hpp"
#include "common/wire/slab_view.hpp"

namespace offramp {

// Writes a slab's payload, and the data to process it again, as one .safetensors file that any reader of that format
// can open. The bytes equal the slab's. Blocks: until the file is on the disk. Errors: SystemError with CannotWrite
// (write_dead_letter_file).
void write_payload(const std::string& path, const SlabContents& slab);

// Opens a file of write_payload() as a slab for a processor, equal to the dead letter's slab.
// Owns the file's mapping, and copies of tensors that are not aligned in the file. Thread: any (immutable). Errors:
// ConfigError or ProtocolError with the file and the field, if write_payload() did not write the file.
class PayloadFile {
  public:
    explicit PayloadFile(const std::string& path);

    const SlabContents& slab() const { return slab_; }

  private:
    SafetensorsFile file_;
    std::vector<std::vector<std::byte>> aligned_;
    SlabContents slab_;
};

// Writes a file of a dead letter as a whole or not at all (WholeFile), and returns once it is on the disk. Blocks: on
// the disk. Errors: SystemError with CannotWrite, the path and the number of bytes.
void write_dead_letter_file(const std::string& path, std::span<const std::span<const std::byte>> pieces);
void write_dead_letter_file(const std::string& path, std::string_view text);

// The metadata key for the slab's description (all except the tensors' bytes), so that the file alone is enough to
// process the slab again.
inline constexpr const char* kPayloadMetadata = "offramp";
inline constexpr int kPayloadMetadataFormat = 1;
inline constexpr int kVaryingPayloadFormat = 2;  // samples differ in shape

// The entries of the slab's tensors in the file. .safetensors has row-major tensors only, so a tensor in another order
// (channels-last) gets its dimensions in memory order, and its bytes equal the slab's. The metadata has the true shape
// and strides. An element type that the format does not support is stored as bytes. Samples that differ in shape follow
// one another: [total, 4096] if only their first dimension varies, else [elements].
std::vector<TensorEntry> tensor_entries(const SlabContents& slab);

std::string payload_metadata(const SlabContents& slab);
// The slab without its tensors' bytes, and the tensors' names in the file. Errors: ProtocolError with the field.
struct NotedSlab {
    SlabContents slab;
    std::vector<std::string> stored_as;
};
NotedSlab read_payload_metadata(const std::string& metadata);

}  // namespace offramp
