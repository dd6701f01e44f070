#pragma once

#include <tiffio.h>

#include <cstdint>

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

}  // namespace offramp
