#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "common/base/unique_fd.hpp"

namespace offramp {

// Opens a file of the user's for reading at any place, links followed, and refuses what is none: a folder, a pipe
// (whose writer is not waited for), a device. It is read, not mapped: a file that shrinks gives a short result, not a
// SIGBUS. Owns the open file. Thread: any, and several concurrently. Blocks: on the disk. Units: bytes. Errors: Error
// with the reason alone, without the path, so that the caller adds the file's purpose: "cannot be opened: ..." NoInput,
// "a folder, not a file" and "not a regular file" BadInput, "cannot be read: ..." NoInput.
class RegularFile {
  public:
    explicit RegularFile(const std::string& path);

    std::uint64_t size() const noexcept { return size_; }  // when it was opened
    // Fills `to` from `offset` on, as far as the file goes. Returns how much was there.
    std::size_t read_at(std::uint64_t offset, std::span<std::byte> to) const;

  private:
    UniqueFd fd_;
    std::uint64_t size_ = 0;
};

}  // namespace offramp
