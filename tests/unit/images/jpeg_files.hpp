#pragma once

#include <map>
#include <string>

#include "tests/unit/images/picture_files.hpp"

namespace offramp {

struct JpegTables {
    int quality = 90;
    bool own_codes = false;       // Huffman tables made for the picture, not the standard ones
    unsigned restart_blocks = 0;  // between restart markers; 0: none
    int across = 2, down = 2;     // pixels of brightness for each of colour
    bool gray = false;
};
std::string encode_jpeg(ImageSize size, const Rgb& pixels, const JpegTables& tables);

// A JPEG file without the segments of that marker (0xdb: quantisation tables, 0xc4: Huffman tables).
std::string without_segments(const std::string& jpeg, unsigned char marker);
// The offset of the first segment of that marker, ahead of the pixels. Errors: std::runtime_error: there is none.
std::size_t segment_at(const std::string& jpeg, unsigned char marker);
// Baseline JPEG files with one fault in the header each, by the name of the fault.
std::map<std::string, std::string> with_bad_headers(const std::string& jpeg);

}  // namespace offramp
