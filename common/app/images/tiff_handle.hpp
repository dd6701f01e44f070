#pragma once

#include <tiffio.h>

#include <cstdint>
#include <string>

#include "common/app/images/tiff.hpp"

namespace offramp {

// The functions of libtiff. The library is opened with the first TIFF and stays open until the process ends: only TIFFs
// need it, and its dependencies have their own licences. Thread: any.
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

// Errors: UnreadableItem with the remedy: libtiff is missing, or older than 4.5.
const Libtiff& libtiff();
// The same for a library with this file name.
Libtiff open_libtiff(const char* name);

// An open TIFF and its callbacks. Each handle keeps its own errors: nothing is printed, or thrown through libtiff.
// Borrows the bytes. Thread: one at a time. Errors: UnreadableItem: truncated, damaged, no libtiff.
class TiffHandle {
  public:
    // Opens the file at this page.
    TiffHandle(const PictureBytes& bytes, std::uint32_t page);
    TiffHandle(const TiffHandle&) = delete;
    TiffHandle& operator=(const TiffHandle&) = delete;
    ~TiffHandle() { libtiff().close(tiff_); }

    TIFF* get() const { return tiff_; }
    // True after any libtiff error, also one after which libtiff continued.
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

// A tag's value, libtiff's default if the file does not have the tag, or else `otherwise`. Number: the tag's own type.
template <class Number>
Number tiff_field(TIFF* tiff, std::uint32_t tag, Number otherwise = 0) {
    Number value = otherwise;
    return libtiff().get_field_defaulted(tiff, tag, &value) == 1 ? value : otherwise;
}

// Moves the handle to the first page in full resolution, past thumbnails and masks, or to page 0 if there is no such
// page. Returns the page's number.
std::uint32_t go_to_page_in_full(TiffHandle& handle);

}  // namespace offramp
