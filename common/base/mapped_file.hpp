#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace offramp {

// Reads a whole file through a private mapping. Owns the mapping. Thread: any. Errors: SystemError with the path.
class MappedFile {
  public:
    explicit MappedFile(const std::string& path);
    ~MappedFile();
    MappedFile(const MappedFile&) = delete;
    MappedFile& operator=(const MappedFile&) = delete;

    std::span<const std::byte> bytes() const { return bytes_; }

  private:
    std::span<const std::byte> bytes_;  // empty: nothing is mapped
};

}  // namespace offramp
