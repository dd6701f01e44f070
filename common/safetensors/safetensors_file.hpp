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
    std::string dtype;  // the format's word: "F32", "BF16", "I64", ...
    std::vector<std::int64_t> shape;
    std::span<const std::byte> bytes;  // inside the file's mapping
};

// "F32 [64, 3, 7, 7]"
std::string describe(const StoredTensor& tensor);

// The file's role for the reader's user, for messages.
struct SafetensorsWords {
    std::string what;           // "the weights"
    std::string hint;           // how a user gets a sound one
    std::string hint_of_zip{};  // where it is a ZIP archive, as torch.save writes it; empty: `hint`
};

// Maps a .safetensors file and checks every claim of its header before anything is believed: 8 bytes little-endian
// header length N, N bytes of JSON {name: {dtype, shape, data_offsets: [begin, end]}}, then the tensors' bytes. The
// header's length is a multiple of nothing, so the tensors may be misaligned: copy them, never cast. Owns the mapping,
// that all StoredTensor::bytes point into. Thread: any, it never changes. Blocks: on the disk. Errors: ConfigError
// (BadInput) with the file, the tensor, the header's value and the correct one.
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
    // Null when the file has no such tensor.
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

// A tensor that is about to be written: row-major, its bytes follow those of the one before it.
struct TensorEntry {
    std::string name;   // unique within the file
    std::string dtype;  // the format's word: "F32", "BF16", ...
    std::vector<std::int64_t> shape;
    std::uint64_t bytes = 0;
};

// Where the tensors' bytes begin in a file with such a header: a multiple of this, so that a mapped file's first tensor
// is aligned.
inline constexpr std::size_t kSafetensorsAlignment = 512;

// The front of a .safetensors file, up to the tensors' bytes: length, JSON, blanks up to kSafetensorsAlignment.
// Text that is not UTF-8 is mended (U+FFFD), as JSON can hold no other.
std::string safetensors_header(std::span<const TensorEntry> tensors,
                               const std::map<std::string, std::string>& metadata);

}  // namespace offramp
