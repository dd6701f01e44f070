#include "common/app/images/tiff_handle.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdarg>
#include <cstdio>
#include <exception>
#include <memory>
#include <new>
#include <string>
#include <string_view>

#include "common/app/images/unreadable_item.hpp"
#include "common/base/log.hpp"
#include "common/base/own_module.hpp"

namespace offramp {
namespace {

constexpr std::uint32_t kMostPages = 64;                // limit of pages to search for one in full resolution
constexpr tmsize_t kMostOfLibtiff = tmsize_t{1} << 30;  // limit of one allocation: a compressed strip or tile

bool is_a_lesser_page(TIFF* tiff) {
    return (tiff_field<std::uint32_t>(tiff, TIFFTAG_SUBFILETYPE) & (FILETYPE_REDUCEDIMAGE | FILETYPE_MASK)) != 0;
}

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

struct TiffHandle::Calls {
    static std::string formatted(const char* format, std::va_list values) {
        std::array<char, 200> text{};
        std::vsnprintf(text.data(), text.size(), format, values);
        std::string line(text.data());
        for (char& c : line)
            if (c < ' ' || c > '~') c = '?';  // a name in the file may contain any bytes
        return line;
    }
    static int keep_error(TIFF*, void* self, const char*, const char* format, std::va_list values) noexcept {
        auto& handle = *static_cast<TiffHandle*>(self);
        if (handle.message_.empty()) handle.message_ = formatted(format, values);
        return 1;
    }
    // A decoder's warning means that part of the picture is invented. So does a JPEG that is smaller than its strip or
    // tile. libjpeg reports only an image's first warning, so a harmless warning may hide any other.
    static int note_warning(TIFF*, void* self, const char* module, const char* format, std::va_list values) noexcept {
        auto& handle = *static_cast<TiffHandle*>(self);
        const std::string_view from = module == nullptr ? "" : module;
        const std::string warning = formatted(format, values);
        const bool is_damage = from == "JPEGLib" || from.starts_with("Fax") || from.starts_with("PackBits") ||
                               warning.starts_with("Improper JPEG strip/tile size");
        if (is_damage && handle.message_.empty()) handle.message_ = warning;
        return 1;
    }
    static tmsize_t read(thandle_t self, void* to, tmsize_t bytes) noexcept {
        auto& handle = *static_cast<TiffHandle*>(self);
        const auto wanted = static_cast<std::size_t>(std::max<tmsize_t>(bytes, 0));
        std::size_t got = 0;
        try {
            if (handle.at_ < handle.bytes_.size)
                got = handle.bytes_.read_at(handle.at_, {static_cast<std::byte*>(to), wanted});
        } catch (const std::exception& failure) {
            handle.problem_ = failure.what();
        }
        if (got < wanted) handle.ran_out_ = true;
        handle.at_ += got;
        return static_cast<tmsize_t>(got);
    }
    static toff_t seek(thandle_t self, toff_t offset, int whence) noexcept {
        auto& handle = *static_cast<TiffHandle*>(self);
        if (whence == SEEK_SET) handle.at_ = offset;
        if (whence == SEEK_CUR) handle.at_ += offset;
        if (whence == SEEK_END) handle.at_ = handle.bytes_.size + offset;
        return handle.at_;
    }
    static tmsize_t write(thandle_t, void*, tmsize_t) noexcept { return 0; }
    static int close(thandle_t) noexcept { return 0; }
    static toff_t size(thandle_t self) noexcept { return static_cast<TiffHandle*>(self)->bytes_.size; }
    static int map(thandle_t, void**, toff_t*) noexcept { return 0; }
    static void unmap(thandle_t, void*, toff_t) noexcept {}
};

TiffHandle::TiffHandle(const PictureBytes& bytes, std::uint32_t page) : bytes_(bytes) {
    const Libtiff& calls = libtiff();
    const std::unique_ptr<TIFFOpenOptions, decltype(&TIFFOpenOptionsFree)> options(calls.open_options_alloc(),
                                                                                   calls.open_options_free);
    if (options == nullptr) throw std::bad_alloc();
    calls.open_options_set_most(options.get(), kMostOfLibtiff);
    calls.open_options_set_errors(options.get(), Calls::keep_error, this);
    calls.open_options_set_warnings(options.get(), Calls::note_warning, this);
    // m: not mapped. If the file shrinks meanwhile, reads are short.
    tiff_ = calls.client_open("picture", "rm", this, Calls::read, Calls::write, Calls::seek, Calls::close, Calls::size,
                              Calls::map, Calls::unmap, options.get());
    if (tiff_ == nullptr) refuse();
    if (page == 0 || calls.set_directory(tiff_, static_cast<tdir_t>(page)) == 1) return;
    calls.close(tiff_);
    refuse();
}

void TiffHandle::forget() {
    message_.clear();
    problem_.clear();
    ran_out_ = false;
}

void TiffHandle::refuse() const {
    if (!problem_.empty()) throw UnreadableItem(problem_);
    if (ran_out_)
        throw UnreadableItem("truncated TIFF: its " + std::to_string(bytes_.size) + " bytes end before the image does");
    throw UnreadableItem("damaged TIFF: " + (message_.empty() ? std::string("libtiff cannot read it") : message_));
}

std::uint32_t go_to_page_in_full(TiffHandle& handle) {
    static std::atomic<bool> was_reported = false;
    std::uint32_t page = 0;
    bool at_it = true;
    if (is_a_lesser_page(handle.get())) {
        do {
            if (libtiff().is_last_directory(handle.get()) != 0) {
                page = 0;  // no page in full resolution: use the first
                at_it = false;
                break;
            }
            if (++page == kMostPages)
                throw UnreadableItem("TIFF whose first " + std::to_string(kMostPages) +
                                     " pages are thumbnails or masks. Split it, for example with `tiffsplit`");
            handle.forget();
            if (libtiff().read_directory(handle.get()) != 1) handle.refuse();
        } while (is_a_lesser_page(handle.get()));
    } else if (!was_reported && libtiff().is_last_directory(handle.get()) == 0) {
        at_it = false;
        if (libtiff().read_directory(handle.get()) == 1 && !is_a_lesser_page(handle.get()) &&
            !was_reported.exchange(true))
            spdlog::warn("a TIFF of the input has several pages: only the first page of a TIFF is read");
    }
    handle.forget();  // errors of other pages
    if (!at_it && libtiff().set_directory(handle.get(), static_cast<tdir_t>(page)) != 1) handle.refuse();
    return page;
}

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
