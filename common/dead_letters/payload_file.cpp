#include "common/dead_letters/payload_file.hpp"

#include <span>

#include "common/base/error.hpp"
#include "common/dead_letters/dead_letter_file.hpp"
#include "common/dead_letters/payload_metadata.hpp"

namespace offramp {
namespace {

// Alignment of any element type, and of memory from operator new.
constexpr std::size_t kLeastAlignment = 16;

}  // namespace

void write_payload(const std::string& path, const SlabContents& slab) {
    const std::string front = safetensors_header(tensor_entries(slab), {{kPayloadMetadata, payload_metadata(slab)}});
    std::vector<std::span<const std::byte>> pieces{std::as_bytes(std::span(front))};
    for (const TensorView& tensor : slab.tensors) pieces.push_back(tensor.bytes);
    write_dead_letter_file(path, pieces);
}

PayloadFile::PayloadFile(const std::string& path)
    : file_(path, {.what = "the dead letter's payload",
                   .hint = "Was it copied completely? Only the run that set it aside can write it again"}) {
    const auto metadata = file_.metadata().find(kPayloadMetadata);
    if (metadata == file_.metadata().end())
        throw ProtocolError(
            "'" + path + "' is not the payload of a dead letter: its metadata has no '" + kPayloadMetadata + "'",
            "Give a file from a run's folder dead-letters/");
    NotedSlab noted = read_payload_metadata(metadata->second);
    slab_ = std::move(noted.slab);
    for (std::size_t i = 0; i < slab_.tensors.size(); ++i) {
        TensorView& tensor = slab_.tensors[i];
        const StoredTensor* const stored = file_.find(noted.stored_as[i]);
        const std::size_t wanted = tensor.spec.row_bytes() * static_cast<std::size_t>(tensor.spec.rows());
        if (stored == nullptr || stored->bytes.size() != wanted)
            throw ProtocolError("'" + path + "': tensor '" + noted.stored_as[i] + "' has " +
                                std::to_string(stored == nullptr ? 0 : stored->bytes.size()) + " bytes, expected " +
                                std::to_string(wanted));
        tensor.bytes = stored->bytes;
        if (reinterpret_cast<std::uintptr_t>(tensor.bytes.data()) % kLeastAlignment == 0) continue;
        aligned_.emplace_back(tensor.bytes.begin(), tensor.bytes.end());
        tensor.bytes = aligned_.back();
    }
}

}  // namespace offramp
