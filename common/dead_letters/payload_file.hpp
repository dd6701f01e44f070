#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "common/safetensors/safetensors_file.hpp"
#include "common/wire/slab_view.hpp"

namespace offramp {

// Writes a slab's payload, and what is needed to process it again, as one .safetensors file that any reader of that
// format can open. The bytes are those of the slab. Blocks: until they are on the disk. Errors: SystemError with
// CannotWrite (write_dead_letter_file).
void write_payload(const std::string& path, const SlabContents& slab);

// Opens what write_payload wrote: a slab like the one that became a dead letter, for a processor.
// Owns the file's mapping and a copy of those tensors that do not lie aligned in it. Thread: any, it never changes.
// Errors: ConfigError or ProtocolError when the file is not what write_payload writes, with the file and the field.
class PayloadFile {
  public:
    explicit PayloadFile(const std::string& path);

    const SlabContents& slab() const { return slab_; }

  private:
    SafetensorsFile file_;
    std::vector<std::vector<std::byte>> aligned_;
    SlabContents slab_;
};

}  // namespace offramp
