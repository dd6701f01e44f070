#include "common/app/images/libtiff.hpp"

#include <dlfcn.h>

#include <string>

#include "common/app/images/unreadable_item.hpp"
#include "common/base/loader_error.hpp"

namespace offramp {
namespace {

constexpr const char* kGetLibtiff = ". Install it: apt-get install libtiff6, dnf install libtiff";

template <class Call>
void find_call(void* library, const char* library_name, Call*& call, const char* name) {
    void* const found = ::dlsym(library, name);
    if (found == nullptr)
        throw UnreadableItem("TIFF needs libtiff 4.5 or later: " + std::string(library_name) + " has no function " +
                             name + kGetLibtiff);
    call = reinterpret_cast<Call*>(found);
}

}  // namespace

Libtiff open_libtiff(const char* name) {
    void* const library = ::dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr)
        throw UnreadableItem("TIFF needs libtiff 4.5 or later, which cannot be opened: " + last_loader_error() +
                             kGetLibtiff);
    Libtiff calls{};
    const auto find = [&](auto*& call, const char* of) { find_call(library, name, call, of); };
    find(calls.open_options_alloc, "TIFFOpenOptionsAlloc");
    find(calls.open_options_free, "TIFFOpenOptionsFree");
    find(calls.open_options_set_most, "TIFFOpenOptionsSetMaxSingleMemAlloc");
    find(calls.open_options_set_errors, "TIFFOpenOptionsSetErrorHandlerExtR");
    find(calls.open_options_set_warnings, "TIFFOpenOptionsSetWarningHandlerExtR");
    find(calls.client_open, "TIFFClientOpenExt");
    find(calls.close, "TIFFClose");
    find(calls.set_directory, "TIFFSetDirectory");
    find(calls.read_directory, "TIFFReadDirectory");
    find(calls.is_last_directory, "TIFFLastDirectory");
    find(calls.get_field, "TIFFGetField");
    find(calls.get_field_defaulted, "TIFFGetFieldDefaulted");
    find(calls.set_field, "TIFFSetField");
    find(calls.is_codec_configured, "TIFFIsCODECConfigured");
    find(calls.is_tiled, "TIFFIsTiled");
    find(calls.tile_size, "TIFFTileSize64");
    find(calls.scanline_size, "TIFFScanlineSize64");
    find(calls.read_tile, "TIFFReadTile");
    find(calls.read_scanline, "TIFFReadScanline");
    return calls;
}

const Libtiff& libtiff() {
    static const Libtiff calls = open_libtiff("libtiff.so.6");
    return calls;
}

}  // namespace offramp
