#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace offramp {

// What stands in front of a .npy file's numbers (NumPy's format, versions 1.0 to 3.0).
struct NpyHeader {
    std::string descr;  // "<f4", "|u1", ...
    bool fortran_order = false;
    std::vector<std::int64_t> shape;  // none negative
    std::size_t bytes = 0;            // of the header: where the numbers begin
};

// Most of a file that its header can take.
inline constexpr std::size_t kMostNpyHeaderBytes = std::size_t{64} << 10;

// Reads the header at the front of a file. Errors: ConfigError (BadInput): what is wrong with it, for a message that
// names the file.
NpyHeader read_npy_header(std::span<const std::byte> front);

}  // namespace offramp
