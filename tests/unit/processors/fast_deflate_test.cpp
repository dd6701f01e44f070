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

RC_GTEST_PROP(FastDeflate, IsReadBackByZlibWhateverThePieces, ()) {
    FastDeflate deflate;
    for (int stream = 0; stream < 2; ++stream) {  // the second in the first one's place
        const auto pieces = *rc::gen::arbitrary<std::vector<Bytes>>();
        Bytes all;
        deflate.begin();
        for (const Bytes& piece : pieces) {
            deflate.add(piece);
            all.insert(all.end(), piece.begin(), piece.end());
        }
        RC_ASSERT(inflated(deflate.end(), all.size()) == all);
    }
}

// Many times the room that it begins with, and larger than what went in.
TEST(FastDeflate, GrowsForWhatCannotBeCompressed) {
    const Bytes bytes = noise(3'000'000);
    FastDeflate deflate;
    deflate.begin();
    deflate.add(bytes);
    const auto stream = deflate.end();
    EXPECT_GT(stream.size(), bytes.size());
    EXPECT_LT(stream.size(), bytes.size() + bytes.size() / 100);
    EXPECT_TRUE(inflated(stream, bytes.size()) == bytes);
}

TEST(FastDeflate, ForgetsTheStreamBefore) {
    const Bytes bytes = noise(50'000);
    FastDeflate reused;
    reused.begin();
    reused.add(Bytes(300'000, 7));
    reused.end();
    FastDeflate fresh;
    const auto stream_of = [&](FastDeflate& deflate) {
        deflate.begin();
        deflate.add(std::span(bytes).first(20'000));
        deflate.add(bytes);
        return deflate.end();
    };
    EXPECT_TRUE(std::ranges::equal(stream_of(reused), stream_of(fresh)));
}

}  // namespace
}  // namespace offramp
