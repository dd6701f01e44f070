#include <dlfcn.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "consumer/processors/pictures/fast_deflate.hpp"
#include "tests/unit/processors/small_pictures.hpp"

// ISA-L chooses its loops by the processor. It calls them by names that this program defines, so that one processor
// runs the loops of all: hosts of several kinds may do the shards of a job, and must leave the same bytes.

struct isal_zstream;

namespace {

using Body = void (*)(isal_zstream*);
using Encode = void* (*)(void*, void*, void*, void*);

struct Kernels {
    std::string name, body, encode;
    bool is_here;
};

Body body_now = nullptr;      // null: ISA-L's own choice
Encode encode_now = nullptr;  // the same
int bodies = 0, encodes = 0;

template <class Function>
Function found(const std::string& name, void* where = RTLD_DEFAULT) {
    return reinterpret_cast<Function>(::dlsym(where, name.c_str()));
}

}  // namespace

// ISA-L's exports, which it calls through its symbol table.
extern "C" {
[[gnu::visibility("default")]] void isal_deflate_icf_body_lvl1(isal_zstream* stream) {
    ++bodies;
    static const auto own = found<Body>("isal_deflate_icf_body_lvl1", RTLD_NEXT);
    (body_now != nullptr ? body_now : own)(stream);
}
[[gnu::visibility("default")]] void* encode_deflate_icf(void* next, void* end, void* bits, void* tables) {
    ++encodes;
    static const auto own = found<Encode>("encode_deflate_icf", RTLD_NEXT);
    return (encode_now != nullptr ? encode_now : own)(next, end, bits, tables);
}
}

namespace offramp {
namespace {

std::vector<std::byte> stream_of(FastDeflate& deflate, std::span<const std::uint8_t> bytes) {
    std::vector<std::byte> room(FastDeflate::room_for(bytes.size()));
    deflate.begin(room);
    deflate.add(bytes, true);
    room.resize(deflate.size());
    return room;
}

TEST(FastDeflate, MakesTheSameBytesOnEveryProcessor) {
    __builtin_cpu_init();
    const Kernels all[] = {
        {"SSE4.2", "isal_deflate_icf_body_hash_hist_01", "encode_deflate_icf_base", true},
        {"AVX", "isal_deflate_icf_body_hash_hist_02", "encode_deflate_icf_base", __builtin_cpu_supports("avx") != 0},
        {"AVX2", "isal_deflate_icf_body_hash_hist_04", "encode_deflate_icf_04", __builtin_cpu_supports("avx2") != 0},
        {"AVX-512", "isal_deflate_icf_body_hash_hist_04", "encode_deflate_icf_06",
         __builtin_cpu_supports("avx512bw") != 0 && __builtin_cpu_supports("avx512vl") != 0 &&
             __builtin_cpu_supports("avx512dq") != 0 && __builtin_cpu_supports("avx512cd") != 0},
    };
    std::mt19937 random(20261126);
    FastDeflate deflate;
    for (int picture = 0; picture < 20'000; ++picture) {
        const auto bytes = test::filtered_picture(random);
        body_now = nullptr;
        encode_now = nullptr;
        bodies = encodes = 0;
        const auto chosen = stream_of(deflate, bytes);
        if (picture == 0 && (bodies == 0 || encodes == 0)) GTEST_SKIP() << "this ISA-L calls its loops by other names";
        for (const Kernels& kernels : all) {
            if (!kernels.is_here) continue;
            body_now = found<Body>(kernels.body);
            encode_now = found<Encode>(kernels.encode);
            if (body_now == nullptr || encode_now == nullptr)
                GTEST_SKIP() << "this ISA-L has other loops for " << kernels.name;
            ASSERT_TRUE(stream_of(deflate, bytes) == chosen) << kernels.name << ", picture " << picture;
        }
    }
}

}  // namespace
}  // namespace offramp
