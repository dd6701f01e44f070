#include "common/app/images/rows_of_png.hpp"

#include <png.h>

#include <algorithm>
#include <csetjmp>
#include <cstring>
#include <new>
#include <span>
#include <utility>

#include "common/app/images/png_reading.hpp"
#include "common/app/images/sixteen_bits.hpp"
#include "common/app/images/unreadable_item.hpp"
#include "common/base/error.hpp"

namespace offramp {
namespace {

struct RowReading : PngReading {
    FileWindow* file;
};

void read_from_window(png_structp png, png_bytep to, std::size_t bytes) {
    auto* const reading = static_cast<RowReading*>(png_get_io_ptr(png));
    while (bytes > 0) {
        if (reading->left == 0) {
            const auto piece = reading->file->next_piece();
            reading->next = piece.data();
            reading->left = piece.size();
            reading->ran_out = piece.empty();
            if (reading->ran_out) png_error(png, "the file ends too early");
        }
        const std::size_t taken = std::min(bytes, reading->left);
        std::memcpy(to, reading->next, taken);
        to += taken;
        bytes -= taken;
        reading->next += taken;
        reading->left -= taken;
    }
}

// Everything that may longjmp, in frames without objects. False: `reading` has the reason.
bool begin_picture(png_structp png, png_infop info, RowReading* reading, std::uint32_t width, std::uint32_t height) {
    if (setjmp(png_jmpbuf(png)) != 0) return false;
    png_set_read_fn(png, reading, read_from_window);
    png_set_user_limits(png, PNG_UINT_31_MAX, PNG_UINT_31_MAX);
    begin_rows(png, info, reading, width, height, PngChannels::Rgb);
    return true;
}

bool read_rows(png_structp png, std::uint32_t rows, std::size_t row_bytes, std::uint8_t* rgb) {
    if (setjmp(png_jmpbuf(png)) != 0) return false;
    for (std::uint32_t row = 0; row < rows; ++row) png_read_row(png, rgb + row * row_bytes, nullptr);
    return true;
}

bool read_end(png_structp png) {
    if (setjmp(png_jmpbuf(png)) != 0) return false;
    png_read_end(png, nullptr);
    return true;
}

class RowsOfPng final : public PictureRows {
  public:
    RowsOfPng(FileWindow file, ImageSize size)
        : PictureRows(size),
          file_(std::move(file)),
          reading_{{.next = nullptr, .left = 0, .ran_out = false, .message = {}, .largest = 0}, &file_},
          png_(make_png_reader(&reading_)),
          info_(png_ == nullptr ? nullptr : png_create_info_struct(png_)) {
        if (info_ != nullptr) return;
        png_destroy_read_struct(&png_, nullptr, nullptr);
        throw std::bad_alloc();
    }
    RowsOfPng(const RowsOfPng&) = delete;
    RowsOfPng& operator=(const RowsOfPng&) = delete;
    ~RowsOfPng() override { png_destroy_read_struct(&png_, &info_, nullptr); }

    void read(std::uint32_t rows, std::uint8_t* rgb) override {
        expect(rows <= size().height - read_, "no more rows are read than there are");
        if (rows == 0) return;
        // Not before: often only the size is asked for.
        if (read_ == 0 && !begin_picture(png_, info_, &reading_, size().width, size().height)) refuse();
        if (!read_rows(png_, rows, std::size_t{size().width} * 3, rgb)) refuse();
        read_ += rows;
        if (read_ < size().height) return;
        if (!read_end(png_)) refuse();
        warn_of_16_bits(reading_.largest);
    }

  private:
    [[noreturn]] void refuse() const {
        if (!file_.problem().empty()) throw UnreadableItem(file_.problem());
        throw UnreadableItem(png_problem(reading_, file_.size()));
    }

    FileWindow file_;
    RowReading reading_;
    png_structp png_;
    png_infop info_;
    std::uint32_t read_ = 0;
};

}  // namespace

std::unique_ptr<PictureRows> rows_of_png(FileWindow file, ImageSize size) {
    return std::make_unique<RowsOfPng>(std::move(file), size);
}

}  // namespace offramp
