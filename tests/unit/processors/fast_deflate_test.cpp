#include "consumer/processors/pictures/fast_deflate.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>
#include <zlib.h>

#include <algorithm>
#include <vector>

namespace offramp {
namespace {

using Bytes = std::vector<std::uint8_t>;

Bytes inflated(std::span<const std::byte> stream, std::size_t bytes) {
    Bytes read(bytes + 1);  // one more than there should be
    uLongf size = read.size();
    if (uncompress(read.data(), &size, reinterpret_cast<const Bytef*>(stream.data()), stream.size()) != Z_OK) return {};
    read.resize(size);
    return read;
}

Bytes noise(std::size_t bytes) {
    Bytes made(bytes);
    std::uint32_t state = 1;
    for (std::uint8_t& byte : made) {
        state = state * 1664525U + 1013904223U;
        byte = static_cast<std::uint8_t>(state >> 24U);
    }
    return made;
}

RC_GTEST_PROP(FastDeflate, IsReadBackByZlib, (const Bytes& first, const Bytes& second)) {
    FastDeflate deflate;
    RC_ASSERT(inflated(deflate.compress(first), first.size()) == first);
    RC_ASSERT(inflated(deflate.compress(second), second.size()) == second);  // in the first one's place
}

TEST(FastDeflate, HasRoomForWhatCannotBeCompressed) {
    const Bytes bytes = noise(3'000'000);
    FastDeflate deflate;
    const auto stream = deflate.compress(bytes);
    EXPECT_GT(stream.size(), bytes.size());
    EXPECT_LT(stream.size(), bytes.size() + bytes.size() / 100);
    EXPECT_TRUE(inflated(stream, bytes.size()) == bytes);
}

TEST(FastDeflate, ForgetsTheStreamBefore) {
    const Bytes bytes = noise(50'000);
    FastDeflate reused;
    reused.compress(Bytes(300'000, 7));
    FastDeflate fresh;
    EXPECT_TRUE(std::ranges::equal(reused.compress(bytes), fresh.compress(bytes)));
}

}  // namespace
}  // namespace offramp
