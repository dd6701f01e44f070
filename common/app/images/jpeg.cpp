#include "common/app/images/jpeg.hpp"

#include <cstdio>
// these headers need std::FILE
#include <jerror.h>
#include <jpeglib.h>

#include <algorithm>
#include <array>
#include <csetjmp>
#include <cstring>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/app/images/image_format.hpp"
#include "common/app/images/unreadable_item.hpp"
#include "common/base/error.hpp"

namespace offramp {

// The state of libjpeg's callbacks. libjpeg's struct is the first member, so that a pointer to it can be cast. Errors
// use longjmp, which runs no destructors.
struct JpegErrors {
    jpeg_error_mgr base;
    std::jmp_buf way_out;
    char message[JMSG_LENGTH_MAX];
};

struct JpegSource {
    jpeg_source_mgr base;
    std::span<const std::byte> bytes;  // a file in memory, until libjpeg gets it
    FileWindow* window;                // any other file; null: in memory
    std::array<std::byte, 2> last;     // the last bytes that libjpeg got
    bool ran_out;
};

namespace {

constexpr int kMostScans = 500;           // more scans take minutes, and no encoder writes them
constexpr std::size_t kLinesAtOnce = 16;  // rows of the largest block that libjpeg decodes together
constexpr std::size_t kInks = 4;

JpegErrors& errors_of(j_common_ptr jpeg) { return *reinterpret_cast<JpegErrors*>(jpeg->err); }
JpegSource& source_of(j_decompress_ptr jpeg) { return *reinterpret_cast<JpegSource*>(jpeg->src); }

[[noreturn]] void leave(j_common_ptr jpeg) {
    JpegErrors& errors = errors_of(jpeg);
    jpeg->err->format_message(jpeg, errors.message);
    std::longjmp(errors.way_out, 1);
}

// Warnings that do not affect the picture. After any other warning, part of the picture is invented.
bool is_harmless(int warning) {
    constexpr std::array kHarmless{JWRN_EXTRANEOUS_DATA, JWRN_ADOBE_XFORM, JWRN_JFIF_MAJOR, JWRN_BOGUS_PROGRESSION,
                                   JWRN_NOT_SEQUENTIAL};
    return std::ranges::find(kHarmless, warning) != kHarmless.end();
}

// libjpeg's errors for files that need unsupported features, even if they are intact.
bool is_unsupported(int error) {
    constexpr std::array kUnsupported{JERR_ARITH_NOTIMPL,      JERR_BAD_PRECISION,        JERR_CCIR601_NOTIMPL,
                                      JERR_CONVERSION_NOTIMPL, JERR_FRACT_SAMPLE_NOTIMPL, JERR_SOF_UNSUPPORTED};
    return std::ranges::find(kUnsupported, error) != kUnsupported.end();
}

// Levels below zero are warnings.
void note_message(j_common_ptr jpeg, int level) {
    if (level < 0 && !is_harmless(jpeg->err->msg_code)) leave(jpeg);
}

void print_nothing(j_common_ptr) {}
void begin_source(j_decompress_ptr) {}
void end_source(j_decompress_ptr) {}

boolean fill_input(j_decompress_ptr jpeg) {
    JpegSource& source = source_of(jpeg);
    const auto piece = source.window != nullptr ? source.window->next_piece() : std::exchange(source.bytes, {});
    if (piece.empty()) {
        source.ran_out = true;
        std::longjmp(errors_of(reinterpret_cast<j_common_ptr>(jpeg)).way_out, 1);
    }
    source.last = {piece.size() > 1 ? piece[piece.size() - 2] : source.last[1], piece.back()};
    source.base.next_input_byte = reinterpret_cast<const JOCTET*>(piece.data());
    source.base.bytes_in_buffer = piece.size();
    return TRUE;
}

void skip_input(j_decompress_ptr jpeg, long bytes) {
    jpeg_source_mgr& source = source_of(jpeg).base;
    for (auto left = static_cast<std::size_t>(std::max(bytes, 0L)); left > 0;) {
        if (source.bytes_in_buffer == 0) fill_input(jpeg);
        const std::size_t taken = std::min(left, source.bytes_in_buffer);
        source.next_input_byte += taken;
        source.bytes_in_buffer -= taken;
        left -= taken;
    }
}

void limit_scans(j_common_ptr jpeg) {
    if (reinterpret_cast<j_decompress_ptr>(jpeg)->input_scan_number <= kMostScans) return;
    JpegErrors& errors = errors_of(jpeg);
    std::snprintf(errors.message, sizeof errors.message, "it has more than %d scans", kMostScans);
    std::longjmp(errors.way_out, 1);
}

// Contains everything that may longjmp, in frames without objects. Returns false on errors: JpegErrors and JpegSource
// have the reason.
bool read_header(jpeg_decompress_struct* jpeg, JpegErrors* errors, JpegSource* source, jpeg_progress_mgr* progress) {
    if (setjmp(errors->way_out) != 0) return false;
    jpeg_create_decompress(jpeg);
    jpeg->src = &source->base;
    jpeg->progress = progress;
    jpeg_read_header(jpeg, TRUE);
    return true;
}

bool start(jpeg_decompress_struct* jpeg, JpegErrors* errors, bool in_inks) {
    if (setjmp(errors->way_out) != 0) return false;
    jpeg->out_color_space = in_inks ? JCS_CMYK : JCS_RGB;
    jpeg_start_decompress(jpeg);
    return true;
}

bool read_lines(jpeg_decompress_struct* jpeg, JpegErrors* errors, JDIMENSION lines, std::size_t line_bytes,
                std::uint8_t* to) {
    if (setjmp(errors->way_out) != 0) return false;
    for (JDIMENSION done = 0; done < lines;) {
        JSAMPROW rows[kLinesAtOnce];
        const JDIMENSION some = std::min<JDIMENSION>(lines - done, kLinesAtOnce);
        for (JDIMENSION row = 0; row < some; ++row) rows[row] = to + (std::size_t{done} + row) * line_bytes;
        done += jpeg_read_scanlines(jpeg, rows, some);
    }
    return true;
}

bool read_end(jpeg_decompress_struct* jpeg, JpegErrors* errors) {
    if (setjmp(errors->way_out) != 0) return false;
    jpeg_finish_decompress(jpeg);
    return true;
}

// Converts inks in Adobe's form (255 means no ink), independent of metadata, with PIL's arithmetic.
void rgb_of_inks(const std::uint8_t* inks, std::size_t pixels, std::uint8_t* rgb) {
    for (std::size_t i = 0; i < pixels; ++i, inks += kInks, rgb += 3)
        for (std::size_t color = 0; color < 3; ++color) {
            const unsigned product = (255U - inks[color]) * inks[3] + 128U;
            const unsigned taken = ((product >> 8U) + product) >> 8U;
            rgb[color] = static_cast<std::uint8_t>(inks[3] - taken);
        }
}

}  // namespace

struct JpegPicture::Decoder {
    explicit Decoder(std::span<const std::byte> file) : file_bytes(file.size()) {
        source.bytes = file;
        begin();
    }
    explicit Decoder(FileWindow file) : file_bytes(file.size()), window(std::move(file)) {
        source.window = &*window;
        begin();
    }
    Decoder(const Decoder&) = delete;
    Decoder& operator=(const Decoder&) = delete;
    ~Decoder() { jpeg_destroy_decompress(&jpeg); }

    void begin();
    [[noreturn]] void refuse() const;
    void read(std::uint32_t rows, std::uint8_t* rgb);

    std::uint64_t file_bytes;
    std::optional<FileWindow> window;
    JpegErrors errors{};
    JpegSource source{};
    jpeg_progress_mgr progress{};
    jpeg_decompress_struct jpeg{};
    std::vector<std::uint8_t> inks;  // some rows of a CMYK picture
};

void JpegPicture::Decoder::begin() {
    jpeg.err = jpeg_std_error(&errors.base);
    errors.base.error_exit = leave;
    errors.base.emit_message = note_message;
    errors.base.output_message = print_nothing;
    source.base.init_source = begin_source;
    source.base.fill_input_buffer = fill_input;
    source.base.skip_input_data = skip_input;
    source.base.resync_to_restart = jpeg_resync_to_restart;
    source.base.term_source = end_source;
    progress.progress_monitor = limit_scans;
    try {
        if (!read_header(&jpeg, &errors, &source, &progress)) refuse();
        if (jpeg.jpeg_color_space == JCS_UNKNOWN)
            throw UnreadableItem("JPEG with " + std::to_string(jpeg.num_components) +
                                 " colours per pixel; only 1, 3 and 4 are supported");
    } catch (...) {
        jpeg_destroy_decompress(&jpeg);  // the destructor of this object does not run
        throw;
    }
}

void JpegPicture::Decoder::refuse() const {
    if (window && !window->problem().empty()) throw UnreadableItem(window->problem());
    if (source.ran_out && source.last == std::array{std::byte{0xff}, std::byte{0xd9}})
        throw UnreadableItem("damaged JPEG: a segment or a scan continues after the end marker");
    if (source.ran_out)
        throw UnreadableItem("truncated JPEG: its " + std::to_string(file_bytes) + " bytes end before the image does");
    throw UnreadableItem((is_unsupported(errors.base.msg_code) ? "JPEG that cannot be read: " : "damaged JPEG: ") +
                         std::string(errors.message));
}

void JpegPicture::Decoder::read(std::uint32_t rows, std::uint8_t* rgb) {
    const bool in_inks = jpeg.jpeg_color_space == JCS_CMYK || jpeg.jpeg_color_space == JCS_YCCK;
    if (jpeg.output_scanline == 0 && !start(&jpeg, &errors, in_inks)) refuse();
    expect(rows <= jpeg.output_height - jpeg.output_scanline, "no more rows are read than there are");
    const std::size_t width = jpeg.output_width;
    if (!in_inks) {
        if (!read_lines(&jpeg, &errors, rows, width * 3, rgb)) refuse();
    } else {
        inks.resize(width * kInks * kLinesAtOnce);
        for (std::uint32_t done = 0; done < rows;) {
            const std::uint32_t some = std::min<std::uint32_t>(rows - done, kLinesAtOnce);
            if (!read_lines(&jpeg, &errors, some, width * kInks, inks.data())) refuse();
            rgb_of_inks(inks.data(), width * some, rgb + done * width * 3);
            done += some;
        }
    }
    if (jpeg.output_scanline == jpeg.output_height && !read_end(&jpeg, &errors)) refuse();
}

JpegPicture::JpegPicture(std::span<const std::byte> file) : decoder_(std::make_unique<Decoder>(file)) {}
JpegPicture::JpegPicture(FileWindow file) : decoder_(std::make_unique<Decoder>(std::move(file))) {}
JpegPicture::~JpegPicture() = default;

ImageSize JpegPicture::size() const { return {decoder_->jpeg.image_width, decoder_->jpeg.image_height}; }

bool JpegPicture::has_many_scans() const { return jpeg_has_multiple_scans(&decoder_->jpeg) != FALSE; }

ImageSize JpegPicture::scale_towards(ImageSize target) {
    ImageSize scaled = size();
    for (const std::uint32_t divisor : {2U, 4U, 8U}) {
        const ImageSize smaller{(size().width + divisor - 1) / divisor, (size().height + divisor - 1) / divisor};
        if (smaller.width < target.width || smaller.height < target.height) break;
        scaled = smaller;
        decoder_->jpeg.scale_num = 1;
        decoder_->jpeg.scale_denom = divisor;
    }
    return scaled;
}

void JpegPicture::read(std::uint32_t rows, std::uint8_t* rgb) {
    if (rows > 0) decoder_->read(rows, rgb);
}

void for_each_jpeg_segment(std::span<const std::byte> file,
                           const std::function<bool(unsigned type, std::span<const std::byte> segment)>& take) {
    const auto byte = [&](std::size_t at) { return std::to_integer<unsigned>(file[at]); };
    for (std::size_t at = 2; at + 4 <= file.size() && byte(at) == 0xff && byte(at + 1) != 0xda;) {
        if (byte(at + 1) == 0xff) {  // a fill byte
            ++at;
            continue;
        }
        const std::size_t length = big_endian_at(file, at + 2, 2);
        if (length < 2 || length > file.size() - at - 2) break;
        if (!take(byte(at + 1), file.subspan(at + 4, length - 2))) break;
        at += 2 + length;
    }
}

bool reaches_first_scan(std::span<const std::byte> front) {
    const auto byte = [&](std::size_t at) { return std::to_integer<std::size_t>(front[at]); };
    std::size_t at = 2;
    while (at + 4 <= front.size() && byte(at) == 0xff && byte(at + 1) != 0xda)
        at += byte(at + 1) == 0xff ? 1 : 2 + ((byte(at + 2) << 8U) | byte(at + 3));  // 0xff: a fill byte
    return at + 4 <= front.size() && at + 4 + ((byte(at + 2) << 8U) | byte(at + 3)) <= front.size();
}

}  // namespace offramp
