#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "common/wire/ledger_layout.hpp"

namespace offramp {
namespace {

constexpr std::uint64_t low_bits(unsigned bits) { return (std::uint64_t{1} << bits) - 1; }

TEST(PackedWords, KeepTheirBits) {
    EXPECT_EQ((SlabWord{SlabState::DeadLettered, 0xabc, 0x123456789abc}.pack()), 0x5abc'1234'5678'9abcULL);
    EXPECT_EQ((SlabWord{}.pack()), 0U);
    // used 1 | attempt 101010111100 | consumer index 10001010101 | session
    EXPECT_EQ((HolderWord{true, 0xabc, 0x455, 0x123456789a}.pack()), 0xd5e4'5512'3456'789aULL);
    EXPECT_EQ((HolderWord{false, 1, 2, 3}.pack()), 0U);
    EXPECT_EQ((WorkWord{0xfedcb, 0xabc, 0x12345678}.pack()), 0xfedc'babc'1234'5678ULL);
}

RC_GTEST_PROP(PackedWords, SlabWordsComeBack, (std::uint64_t random)) {
    const SlabWord word{static_cast<SlabState>(random % kSlabStates),
                        static_cast<std::uint32_t>(*rc::gen::arbitrary<std::uint32_t>() & kMaxAttempt),
                        *rc::gen::arbitrary<std::uint64_t>() & low_bits(48)};
    RC_ASSERT(SlabWord::unpack(word.pack()) == word);
    RC_ASSERT(SlabWord::unpack(random).pack() == random);
}

RC_GTEST_PROP(PackedWords, HolderWordsComeBackAndAreNeverAFreePlace, (std::uint64_t random)) {
    const HolderWord word{true, static_cast<std::uint32_t>(random) & kMaxAttempt,
                          static_cast<std::uint32_t>(random >> 32) & (kMaxConsumers - 1),
                          *rc::gen::arbitrary<std::uint64_t>() & low_bits(40)};
    RC_ASSERT(HolderWord::unpack(word.pack()) == word);
    RC_ASSERT(word.pack() != 0U);
    const std::uint64_t used = random | std::uint64_t{1} << 63;
    RC_ASSERT(HolderWord::unpack(used).pack() == used);
}

RC_GTEST_PROP(PackedWords, WorkWordsComeBackAndOnesOfRealDeliveriesAreNotIdle, (std::uint64_t random)) {
    const WorkWord word{static_cast<std::uint32_t>(random) & (kMaxSlabs - 1),
                        1 + static_cast<std::uint32_t>(random >> 32) % kMaxAttempt,
                        static_cast<std::uint32_t>(random >> 17)};
    RC_ASSERT(WorkWord::unpack(word.pack()) == word);
    RC_ASSERT(word.pack() != 0U);
    RC_ASSERT(WorkWord::unpack(random).pack() == random);
}

// A field that is too large must not spill into its neighbours.
RC_GTEST_PROP(PackedWords, OversizedFieldsStayInTheirBits, (std::uint64_t large, std::uint32_t attempt)) {
    RC_ASSERT((SlabWord::unpack(SlabWord{SlabState::Ready, attempt, large}.pack()) ==
               SlabWord{SlabState::Ready, attempt & kMaxAttempt, large & low_bits(48)}));
    RC_ASSERT((HolderWord::unpack(HolderWord{true, attempt, attempt, large}.pack()) ==
               HolderWord{true, attempt & kMaxAttempt, attempt & (kMaxConsumers - 1), large & low_bits(40)}));
    RC_ASSERT((WorkWord::unpack(WorkWord{attempt, attempt, attempt}.pack()) ==
               WorkWord{attempt & (kMaxSlabs - 1), attempt & kMaxAttempt, attempt}));
}

TEST(SharedWords, AreStoredAndLoadedAtomically) {
    std::uint64_t word = 0;
    store_word(word, 0x0123456789abcdef);
    EXPECT_EQ(load_word(word), 0x0123456789abcdefU);
}

}  // namespace
}  // namespace offramp
