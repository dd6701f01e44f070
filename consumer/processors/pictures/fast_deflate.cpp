#include "consumer/processors/pictures/fast_deflate.hpp"

#include <libdeflate.h>

#include <new>

#include "common/base/error.hpp"

namespace offramp {
namespace {

constexpr int kLevel = 2;

}  // namespace

FastDeflate::FastDeflate() : compressor_(libdeflate_alloc_compressor(kLevel)) {
    if (!compressor_) throw std::bad_alloc();
}

void FastDeflate::Free::operator()(libdeflate_compressor* compressor) const noexcept {
    libdeflate_free_compressor(compressor);
}

std::span<const std::byte> FastDeflate::compress(std::span<const std::uint8_t> bytes) {
    const std::size_t most = libdeflate_zlib_compress_bound(compressor_.get(), bytes.size());
    if (room_.size() < most) room_.resize(most);
    const std::size_t used =
        libdeflate_zlib_compress(compressor_.get(), bytes.data(), bytes.size(), room_.data(), room_.size());
    expect(used > 0, "libdeflate has the room that it asks for");
    return std::span(room_).first(used);
}

}  // namespace offramp
