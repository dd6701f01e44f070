#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace offramp {

// The header of a .npy file (NumPy's format, versions 1.0 to 3.0).
struct NpyHeader {
    std::string descr;  // "<f4", "|u1", ...
    bool fortran_order = false;
    std::vector<std::int64_t> shape;  // none negative
    std::size_t bytes = 0;            // of the header: the numbers follow
};

// The largest size of a header.
inline constexpr std::size_t kMostNpyHeaderBytes = std::size_t{64} << 10;

// Reads the header at the front of a file. Errors: ConfigError (BadInput) with the fault, for a message that names the
// file.
NpyHeader read_npy_header(std::span<const std::byte> front);

}  // namespace offramp
