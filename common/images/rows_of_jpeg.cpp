#include "common/images/rows_of_jpeg.hpp"

#include <cstdio>
// it needs std::FILE to be known
#include <jpeglib.h>

#include <algorithm>
#include <csetjmp>
#include <cstring>
#include <string>
#include <utility>

#include "common/base/error.hpp"
#include "common/images/image_decode.hpp"
#include "common/images/jpeg.hpp"
#include "common/images/tiling.hpp"
#include "common/images/unreadable_item.hpp"

namespace offramp {
namespace {

// What libjpeg calls back with: its own structs first, so that a pointer to them is one to these. An error leaves by
// longjmp, which runs no destructor.
struct JpegErrors {
    jpeg_error_mgr base;
    std::jmp_buf way_out;
    bool is_damaged;
    char message[JMSG_LENGTH_MAX];
};

struct JpegSource {
    jpeg_source_mgr base;
    FileWindow* file;
    bool ran_out;
};

JpegErrors& errors_of(j_common_ptr jpeg) { return *reinterpret_cast<JpegErrors*>(jpeg->err); }
JpegSource& source_of(j_decompress_ptr jpeg) { return *reinterpret_cast<JpegSource*>(jpeg->src); }

[[noreturn]] void leave_rows(j_common_ptr jpeg) {
    JpegErrors& errors = errors_of(jpeg);
    jpeg->err->format_message(jpeg, errors.message);
    std::longjmp(errors.way_out, 1);
}

// Negative levels are warnings: all but the harmless ones mean that part of the picture is invented.
void note_message(j_common_ptr jpeg, int level) {
    if (level >= 0) return;
    char text[JMSG_LENGTH_MAX];
    jpeg->err->format_message(jpeg, text);
    if (is_harmless_jpeg_warning(text)) return;
    errors_of(jpeg).is_damaged = true;
    std::memcpy(errors_of(jpeg).message, text, sizeof text);
    std::longjmp(errors_of(jpeg).way_out, 1);
}

void print_nothing(j_common_ptr) {}
void begin_source(j_decompress_ptr) {}
void end_source(j_decompress_ptr) {}

boolean fill_from_window(j_decompress_ptr jpeg) {
    JpegSource& source = source_of(jpeg);
    const auto piece = source.file->next_piece();
    if (piece.empty()) {
        source.ran_out = true;
        std::longjmp(errors_of(reinterpret_cast<j_common_ptr>(jpeg)).way_out, 1);
    }
    source.base.next_input_byte = reinterpret_cast<const JOCTET*>(piece.data());
    source.base.bytes_in_buffer = piece.size();
    return TRUE;
}

void skip_in_window(j_decompress_ptr jpeg, long bytes) {
    jpeg_source_mgr& source = source_of(jpeg).base;
    for (auto left = static_cast<std::size_t>(std::max(bytes, 0L)); left > 0;) {
        if (source.bytes_in_buffer == 0) fill_from_window(jpeg);
        const std::size_t taken = std::min(left, source.bytes_in_buffer);
        source.next_input_byte += taken;
        source.bytes_in_buffer -= taken;
        left -= taken;
    }
}

// Everything that may longjmp, in frames without objects. False: JpegErrors and JpegSource say why.
bool read_header(jpeg_decompress_struct* jpeg, JpegErrors* errors, JpegSource* source) {
    if (setjmp(errors->way_out) != 0) return false;
    jpeg_create_decompress(jpeg);
    jpeg->src = &source->base;
    jpeg_read_header(jpeg, TRUE);
    return true;
}

bool start(jpeg_decompress_struct* jpeg, JpegErrors* errors) {
    if (setjmp(errors->way_out) != 0) return false;
    jpeg->out_color_space = JCS_RGB;
    jpeg_start_decompress(jpeg);
    return true;
}

bool read_rows(jpeg_decompress_struct* jpeg, JpegErrors* errors, std::uint32_t rows, std::uint8_t* rgb) {
    if (setjmp(errors->way_out) != 0) return false;
    const std::size_t row_bytes = std::size_t{jpeg->output_width} * 3;
    for (std::uint32_t row = 0; row < rows; ++row) {
        JSAMPROW line = rgb + row * row_bytes;
        jpeg_read_scanlines(jpeg, &line, 1);
    }
    return true;
}

bool read_end(jpeg_decompress_struct* jpeg, JpegErrors* errors) {
    if (setjmp(errors->way_out) != 0) return false;
    jpeg_finish_decompress(jpeg);
    return true;
}

// The decoder, so that it goes whatever its reader's constructor throws.
struct RowDecoder {
    explicit RowDecoder(FileWindow window) : file(std::move(window)) {
        jpeg.err = jpeg_std_error(&errors.base);
        errors.base.error_exit = leave_rows;
        errors.base.emit_message = note_message;
        errors.base.output_message = print_nothing;
        source.base.init_source = begin_source;
        source.base.fill_input_buffer = fill_from_window;
        source.base.skip_input_data = skip_in_window;
        source.base.resync_to_restart = jpeg_resync_to_restart;
        source.base.term_source = end_source;
        source.file = &file;
        if (!read_header(&jpeg, &errors, &source)) {
            jpeg_destroy_decompress(&jpeg);
            refuse();
        }
    }
    RowDecoder(const RowDecoder&) = delete;
    RowDecoder& operator=(const RowDecoder&) = delete;
    ~RowDecoder() { jpeg_destroy_decompress(&jpeg); }

    [[noreturn]] void refuse() const {
        if (!file.problem().empty()) throw UnreadableItem(file.problem());
        if (source.ran_out)
            throw UnreadableItem("truncated JPEG: its " + std::to_string(file.size()) +
                                 " bytes end before the image does");
        throw UnreadableItem(std::string("damaged JPEG: ") + errors.message);
    }

    FileWindow file;
    JpegErrors errors{};
    JpegSource source{};
    jpeg_decompress_struct jpeg{};
};

class RowsOfJpeg final : public PictureRows {
  public:
    explicit RowsOfJpeg(std::unique_ptr<RowDecoder> decoder)
        : PictureRows({decoder->jpeg.image_width, decoder->jpeg.image_height}), decoder_(std::move(decoder)) {}

    void read(std::uint32_t rows, std::uint8_t* rgb) override {
        expect(rows <= size().height - read_, "no more rows are read than there are");
        if (rows == 0) return;
        if (read_ == 0 && !start(&decoder_->jpeg, &decoder_->errors)) decoder_->refuse();
        if (!read_rows(&decoder_->jpeg, &decoder_->errors, rows, rgb)) decoder_->refuse();
        read_ += rows;
        if (read_ == size().height && !read_end(&decoder_->jpeg, &decoder_->errors)) decoder_->refuse();
    }

  private:
    std::unique_ptr<RowDecoder> decoder_;
    std::uint32_t read_ = 0;
};

}  // namespace

std::unique_ptr<PictureRows> rows_of_jpeg(FileWindow file) {
    auto decoder = std::make_unique<RowDecoder>(std::move(file));
    const jpeg_decompress_struct& jpeg = decoder->jpeg;
    if (jpeg.jpeg_color_space == JCS_CMYK || jpeg.jpeg_color_space == JCS_YCCK)
        throw UnreadableItem(std::string("JPEG in ") + (jpeg.jpeg_color_space == JCS_CMYK ? "CMYK" : "YCCK") +
                             " colours; only RGB and gray are read");
    const ImageSize size{jpeg.image_width, jpeg.image_height};
    check_pixels(size, kMostTiledPixels);
    if (jpeg_has_multiple_scans(&decoder->jpeg)) check_held_whole(size, "a progressive JPEG");
    return std::make_unique<RowsOfJpeg>(std::move(decoder));
}

}  // namespace offramp
