#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace offramp {

// Writes a file of a dead letter, whole or not at all (WholeFile), which is on the disk when this returns.
// Blocks: on the disk. Errors: SystemError with CannotWrite, the path and how many bytes were wanted.
void write_dead_letter_file(const std::string& path, std::span<const std::span<const std::byte>> pieces);
void write_dead_letter_file(const std::string& path, std::string_view text);

}  // namespace offramp
