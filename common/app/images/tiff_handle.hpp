#pragma once

#include <cstdint>
#include <string>

#include "common/app/images/libtiff.hpp"
#include "common/app/images/tiff.hpp"

namespace offramp {

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
