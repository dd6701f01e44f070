#include "tests/unit/images/jpeg_files.hpp"

#include <cstdio>
// needs std::FILE
#include <jpeglib.h>

#include <cstdint>
#include <cstdlib>
#include <stdexcept>

namespace offramp {
namespace {

constexpr unsigned char kFrame = 0xc0, kHuffman = 0xc4, kQuantisation = 0xdb, kScan = 0xda;

unsigned char byte_at(const std::string& file, std::size_t at) { return static_cast<unsigned char>(file.at(at)); }

std::size_t segment_bytes(const std::string& jpeg, std::size_t at) {
    return 2 + (std::size_t{byte_at(jpeg, at + 2)} << 8U) + byte_at(jpeg, at + 3);
}

std::string changed(std::string file, std::size_t at, const std::string& bytes) {
    return file.replace(at, bytes.size(), bytes);
}

}  // namespace

std::string encode_jpeg(ImageSize size, const Rgb& pixels, const JpegTables& tables) {
    jpeg_compress_struct jpeg{};
    jpeg_error_mgr errors{};
    jpeg.err = jpeg_std_error(&errors);
    jpeg_create_compress(&jpeg);
    unsigned char* bytes = nullptr;
    unsigned long count = 0;
    jpeg_mem_dest(&jpeg, &bytes, &count);
    jpeg.image_width = size.width;
    jpeg.image_height = size.height;
    jpeg.input_components = 3;
    jpeg.in_color_space = JCS_RGB;
    jpeg_set_defaults(&jpeg);
    if (tables.gray) jpeg_set_colorspace(&jpeg, JCS_GRAYSCALE);
    jpeg.comp_info[0].h_samp_factor = tables.gray ? 1 : tables.across;
    jpeg.comp_info[0].v_samp_factor = tables.gray ? 1 : tables.down;
    jpeg_set_quality(&jpeg, tables.quality, TRUE);
    jpeg.optimize_coding = tables.own_codes ? TRUE : FALSE;
    jpeg.restart_interval = tables.restart_blocks;
    jpeg_start_compress(&jpeg, TRUE);
    Rgb lines = pixels;
    while (jpeg.next_scanline < size.height) {
        JSAMPROW line = lines.data() + std::size_t{jpeg.next_scanline} * size.width * 3;
        jpeg_write_scanlines(&jpeg, &line, 1);
    }
    jpeg_finish_compress(&jpeg);
    jpeg_destroy_compress(&jpeg);
    std::string file(reinterpret_cast<char*>(bytes), count);
    std::free(bytes);
    return file;
}

std::string without_segments(const std::string& jpeg, unsigned char marker) {
    std::string kept = jpeg.substr(0, 2);
    std::size_t at = 2;
    for (; byte_at(jpeg, at + 1) != kScan; at += segment_bytes(jpeg, at))
        if (byte_at(jpeg, at + 1) != marker) kept += jpeg.substr(at, segment_bytes(jpeg, at));
    return kept + jpeg.substr(at);
}

std::size_t segment_at(const std::string& jpeg, unsigned char marker) {
    for (std::size_t at = 2; at + 4 < jpeg.size(); at += segment_bytes(jpeg, at)) {
        if (byte_at(jpeg, at + 1) == marker) return at;
        if (byte_at(jpeg, at + 1) == kScan) break;
    }
    throw std::runtime_error("no such segment");
}

std::map<std::string, std::string> with_bad_headers(const std::string& jpeg) {
    using namespace std::string_literals;
    const std::size_t frame = segment_at(jpeg, kFrame), quantisation = segment_at(jpeg, kQuantisation);
    const std::size_t huffman = segment_at(jpeg, kHuffman), scan = segment_at(jpeg, kScan);
    const std::string frame_segment = jpeg.substr(frame, segment_bytes(jpeg, frame));
    return {{"lossless", changed(jpeg, frame + 1, "\xc3")},
            {"hierarchical", changed(jpeg, frame + 1, "\xc5")},
            {"12 bits", changed(jpeg, frame + 4, "\x0c")},
            {"no height", changed(jpeg, frame + 5, "\0\0"s)},
            {"no width", changed(jpeg, frame + 7, "\0\0"s)},
            {"nine components", changed(jpeg, frame + 9, "\x09")},
            {"two components", changed(changed(jpeg, frame + 9, "\x02"), frame + 2, "\x00\x0e"s).erase(frame + 16, 3)},
            {"sampling", changed(jpeg, frame + 11, "\x55")},
            {"frame length", changed(jpeg, frame + 2, "\x00\x05"s)},
            {"table length", changed(jpeg, quantisation + 2, "\x00\x01"s)},
            {"table number", changed(jpeg, quantisation + 4, "\x0f")},
            {"table behind the end", changed(jpeg, quantisation + 2, "\xff\xff")},
            {"Huffman codes", changed(jpeg, huffman + 5, std::string(16, '\xff'))},
            {"Huffman number", changed(jpeg, huffman + 4, "\x77")},
            {"scan length", changed(jpeg, scan + 2, "\x00\x03"s)},
            {"scan component", changed(jpeg, scan + 5, "\x77")},
            {"scan before frame", jpeg.substr(0, frame) + jpeg.substr(frame + frame_segment.size())},
            {"two frames", jpeg.substr(0, frame) + frame_segment + jpeg.substr(frame)},
            {"two starts", jpeg.substr(0, 2) + jpeg},
            {"end at once", jpeg.substr(0, 2) + "\xff\xd9" + jpeg.substr(2)},
            {"tables alone", jpeg.substr(0, frame) + "\xff\xd9"},
            {"no quantisation tables", without_segments(jpeg, kQuantisation)}};
}

}  // namespace offramp
