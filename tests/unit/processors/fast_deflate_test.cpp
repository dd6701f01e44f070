#include "consumer/processors/pictures/fast_deflate.hpp"

#include <gtest/gtest.h>
#include <malloc.h>
#include <rapidcheck/gtest.h>
#include <zlib.h>

#include <cstring>
#include <random>
#include <vector>

#include "tests/unit/processors/small_pictures.hpp"

namespace offramp {
namespace {

using test::filtered_picture;
using Bytes = std::vector<std::uint8_t>;

std::vector<std::byte> stream_of(FastDeflate& deflate, const std::vector<std::span<const std::uint8_t>>& pieces) {
    std::size_t bytes = 0;
    for (const auto& piece : pieces) bytes += piece.size();
    std::vector<std::byte> room(FastDeflate::room_for(bytes));
    deflate.begin(room);
    for (const auto& piece : pieces) deflate.add(piece, &piece == &pieces.back());
    room.resize(deflate.size());
    return room;
}

Bytes inflated(std::span<const std::byte> stream, std::size_t bytes) {
    Bytes read(bytes + 1);  // one more than expected
    uLongf size = read.size();
    if (uncompress(read.data(), &size, reinterpret_cast<const Bytef*>(stream.data()), stream.size()) != Z_OK) return {};
    read.resize(size);
    return read;
}

Bytes noise(std::size_t bytes) {
    Bytes made(bytes);
    std::mt19937 random(1);
    for (std::uint8_t& byte : made) byte = static_cast<std::uint8_t>(random());
    return made;
}

RC_GTEST_PROP(FastDeflate, IsReadBackByZlibWhateverThePieces, ()) {
    FastDeflate deflate;
    for (int stream = 0; stream < 2; ++stream) {  // the second in the memory of the first
        std::mt19937 random(*rc::gen::arbitrary<std::uint32_t>());
        auto parts = *rc::gen::nonEmpty(rc::gen::container<std::vector<Bytes>>(
            rc::gen::nonEmpty(rc::gen::container<Bytes>(rc::gen::arbitrary<std::uint8_t>()))));
        if (*rc::gen::arbitrary<bool>()) parts.push_back(filtered_picture(random));
        std::vector<std::span<const std::uint8_t>> pieces(parts.begin(), parts.end());
        Bytes all;
        for (const Bytes& part : parts) all.insert(all.end(), part.begin(), part.end());
        RC_ASSERT(inflated(stream_of(deflate, pieces), all.size()) == all);
    }
}

TEST(FastDeflate, HasRoomForIncompressibleBytes) {
    const Bytes bytes = noise(3'000'000);
    FastDeflate deflate;
    const auto stream = stream_of(deflate, {std::span(bytes).first(1'000'000), std::span(bytes).subspan(1'000'000)});
    EXPECT_GT(stream.size(), bytes.size());
    EXPECT_LT(stream.size(), bytes.size() + bytes.size() / 100);
    EXPECT_TRUE(inflated(stream, bytes.size()) == bytes);
}

// A compressor in memory that malloc() has filled with `fill`, at a unique address.
FastDeflate poisoned(int fill) {
    ::mallopt(M_PERTURB, fill);
    FastDeflate made;
    ::mallopt(M_PERTURB, 0);
    return made;
}

// Memory filled with `fill` around the input: farther than ISA-L looks back and ahead.
class GuardedBuffer {
  public:
    explicit GuardedBuffer(std::uint8_t fill) : fill_(fill), memory_(kBefore + kMostBytes + kBehind, fill) {}

    std::vector<std::byte> stream_of(FastDeflate& deflate, const Bytes& bytes) {
        const auto place = std::span(memory_).subspan(kBefore, bytes.size());
        std::memcpy(place.data(), bytes.data(), bytes.size());
        auto stream = offramp::stream_of(deflate, {place});
        std::memset(place.data(), fill_, place.size());
        return stream;
    }

  private:
    static constexpr std::size_t kBefore = 33'000, kMostBytes = 500'000, kBehind = 600;

    std::uint8_t fill_;
    Bytes memory_;
};

// Consumers of any run leave the same file for the same pixels: it depends neither on addresses, nor on earlier memory
// contents or streams, nor on bytes around the pixels. If ISA-L starts the stream itself, 50 to 130 of these pictures
// differ.
TEST(FastDeflate, MakesTheSameBytesWithAnyMemoryContents) {
    std::mt19937 random(20261126);
    std::vector<FastDeflate> kept;  // so that addresses differ
    for (const int fill : {0x01, 0x5A, 0xA5, 0xFF}) kept.push_back(poisoned(fill));
    GuardedBuffer zeros(0), others(0xE7);
    int differing = 0;
    for (int picture = 0; picture < 100'000; ++picture) {
        const Bytes bytes = filtered_picture(random);
        const auto first = zeros.stream_of(kept[0], bytes);
        FastDeflate& other = kept[1 + random() % 3];
        if (picture % 50 == 0) {
            FastDeflate fresh = poisoned(1 + static_cast<int>(random() % 255));
            std::swap(fresh, other);
        }
        const auto second = others.stream_of(other, bytes);
        differing +=
            first.size() == second.size() && std::memcmp(first.data(), second.data(), first.size()) == 0 ? 0 : 1;
        ASSERT_TRUE(picture % 100 != 0 || inflated(first, bytes.size()) == bytes) << picture;
    }
    EXPECT_EQ(differing, 0);
}

}  // namespace
}  // namespace offramp
