#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace offramp {

// One tensor of a .safetensors file, as stored: row-major, little-endian, at any alignment.
struct StoredTensor {
    std::string dtype;  // in the format's terms: "F32", "BF16", "I64", ...
    std::vector<std::int64_t> shape;
    std::span<const std::byte> bytes;  // inside the file's mapping
};

// "F32 [64, 3, 7, 7]"
std::string describe(const StoredTensor& tensor);

// The file's role, for error texts.
struct SafetensorsWords {
    std::string what;           // "the weights"
    std::string hint;           // how a user gets a valid file
    std::string hint_of_zip{};  // the hint for a ZIP archive (torch.save); empty: `hint`
};

// Maps a .safetensors file and validates its whole header before use. Format: the header's length N in 8 bytes,
// little-endian; N bytes of JSON {name: {dtype, shape, data_offsets: [begin, end]}}; the tensors' bytes. The header can
// have any length, so tensors may be misaligned: copy them, never cast. Owns the mapping that all StoredTensor::bytes
// point into. Thread: any (immutable). Blocks: on the disk. Errors: ConfigError (BadInput) with the file, the tensor,
// the header's value and the correct one.
class SafetensorsFile {
  public:
    SafetensorsFile(const std::string& path, SafetensorsWords words);
    ~SafetensorsFile();
    SafetensorsFile(const SafetensorsFile&) = delete;
    SafetensorsFile& operator=(const SafetensorsFile&) = delete;

    const std::string& path() const { return path_; }
    const std::map<std::string, StoredTensor, std::less<>>& tensors() const { return tensors_; }
    // The header's __metadata__: the file's own notes, text by name.
    const std::map<std::string, std::string, std::less<>>& metadata() const { return metadata_; }
    // Returns null if the file has no such tensor.
    const StoredTensor* find(std::string_view name) const;

  private:
    void map_file();
    void read_header();
    void check_coverage() const;

    std::string path_;
    SafetensorsWords words_;
    std::span<const std::byte> file_;
    std::span<const std::byte> data_;
    std::map<std::string, StoredTensor, std::less<>> tensors_;
    std::map<std::string, std::string, std::less<>> metadata_;
};

// A tensor to write: row-major, its bytes follow the previous tensor's.
struct TensorEntry {
    std::string name;   // unique within the file
    std::string dtype;  // in the format's terms: "F32", "BF16", ...
    std::vector<std::int64_t> shape;
    std::uint64_t bytes = 0;
};

// In a file with safetensors_header(), the tensors' bytes begin at a multiple of this, so that a mapped file's first
// tensor is aligned.
inline constexpr std::size_t kSafetensorsAlignment = 512;

// The beginning of a .safetensors file, up to the tensors' bytes: length, JSON, blanks up to kSafetensorsAlignment.
// Invalid UTF-8 becomes U+FFFD, because JSON must be UTF-8.
std::string safetensors_header(std::span<const TensorEntry> tensors,
                               const std::map<std::string, std::string>& metadata);

}  // namespace offramp
