#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace offramp {

// Writes a file that appears whole or not at all, and is on the disk when this returns: temporary name beside its place, fsync,
// rename, fsync of the folder. A file that was there is replaced; a temporary one is removed when something fails.
// Blocks: on the disk. Errors: SystemError with CannotWrite, the path and how many bytes were wanted.
void write_whole_file(const std::string& path, std::span<const std::span<const std::byte>> pieces);
void write_whole_file(const std::string& path, std::string_view text);

}  // namespace offramp
