#pragma once

#include <tiffio.h>

#include <cstdint>
#include <string>

#include "common/app/images/tiff.hpp"

namespace offramp {

// The calls of libtiff, which is opened with the first TIFF and stays open until the process ends: nothing else needs
// it, and its dependencies have their own licences. Thread: any.
struct Libtiff {
    decltype(&::TIFFOpenOptionsAlloc) open_options_alloc;
    decltype(&::TIFFOpenOptionsFree) open_options_free;
    decltype(&::TIFFOpenOptionsSetMaxSingleMemAlloc) open_options_set_most;
    decltype(&::TIFFOpenOptionsSetErrorHandlerExtR) open_options_set_errors;
    decltype(&::TIFFOpenOptionsSetWarningHandlerExtR) open_options_set_warnings;
    decltype(&::TIFFClientOpenExt) client_open;
    decltype(&::TIFFClose) close;
    decltype(&::TIFFSetDirectory) set_directory;
    decltype(&::TIFFReadDirectory) read_directory;
    decltype(&::TIFFLastDirectory) is_last_directory;
    int (*get_field)(TIFF*, std::uint32_t, ...);
    int (*get_field_defaulted)(TIFF*, std::uint32_t, ...);
    int (*set_field)(TIFF*, std::uint32_t, ...);
    decltype(&::TIFFIsCODECConfigured) is_codec_configured;
    decltype(&::TIFFIsTiled) is_tiled;
    decltype(&::TIFFTileSize64) tile_size;
    decltype(&::TIFFScanlineSize64) scanline_size;
    decltype(&::TIFFReadTile) read_tile;
    decltype(&::TIFFReadScanline) read_scanline;
};

// Errors: UnreadableItem with the remedy: it is not there, or older than 4.5.
const Libtiff& libtiff();
// The same of a library of that name.
Libtiff open_libtiff(const char* name);

// An open file of libtiff, and its callbacks: each has its own errors, nothing is printed or thrown through libtiff.
// Borrows the bytes. Thread: one at a time. Errors: UnreadableItem: truncated, damaged, no libtiff.
class TiffHandle {
  public:
    // At that page of the file.
    TiffHandle(const PictureBytes& bytes, std::uint32_t page);
    TiffHandle(const TiffHandle&) = delete;
    TiffHandle& operator=(const TiffHandle&) = delete;
    ~TiffHandle() { libtiff().close(tiff_); }

    TIFF* get() const { return tiff_; }
    // An error of libtiff's, also one that it went on after.
    bool is_damaged() const { return !message_.empty(); }
    void forget();
    [[noreturn]] void refuse() const;

  private:
    struct Calls;

    const PictureBytes& bytes_;
    std::uint64_t at_ = 0;
    bool ran_out_ = false;
    std::string message_, problem_;
    TIFF* tiff_ = nullptr;
};

// A tag's number, or what libtiff takes for it where the file has none, or `otherwise`. Number: the tag's own type.
template <class Number>
Number tiff_field(TIFF* tiff, std::uint32_t tag, Number otherwise = 0) {
    Number value = otherwise;
    return libtiff().get_field_defaulted(tiff, tag, &value) == 1 ? value : otherwise;
}

// Finds the first page in full resolution: thumbnails and masks may stand in front. The handle is at it then.
std::uint32_t go_to_page_in_full(TiffHandle& handle);

}  // namespace offramp
