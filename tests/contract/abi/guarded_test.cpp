// The wrapper of every C ABI call: an exception becomes a code that offramp.h lists, and a text.

#include "common/abi/guarded.hpp"

#include <gmock/gmock.h>

#include <new>
#include <stdexcept>
#include <utility>

#include "common/base/error.hpp"

namespace offramp::abi {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// Calls guarded() with a body that throws `thrown`.
template <typename Thrown>
std::pair<std::int32_t, std::string> outcome_of(const Thrown& thrown) {
    offramp_error error{};
    const std::int32_t code = guarded(&error, [&]() -> std::int32_t { throw thrown; });
    EXPECT_EQ(error.code, code);
    EXPECT_EQ(guarded(nullptr, [&]() -> std::int32_t { throw thrown; }), code) << "the text is not needed";
    return {code, error.text};
}

TEST(Guarded, AKindThatTheHeaderListsKeepsItsNumber) {
    for (const ErrorKind kind :
         {ErrorKind::Internal, ErrorKind::Usage, ErrorKind::NoSuchRun, ErrorKind::System, ErrorKind::CannotWrite,
          ErrorKind::SinkUnavailable, ErrorKind::Protocol, ErrorKind::NotPermitted, ErrorKind::SharedMemoryFull,
          ErrorKind::DeviceOutOfMemory, ErrorKind::DeviceBroken, ErrorKind::DeviceUnsupported, ErrorKind::RunInUse,
          ErrorKind::ProducerGone, ErrorKind::Interrupted}) {
        EXPECT_EQ(outcome_of(Error(kind, "why")), std::pair(std::int32_t{to_int(kind)}, std::string("why")));
        EXPECT_STRNE(offramp_code_name(code_of(kind)), "?");
    }
}

TEST(Guarded, AnyOtherKindIsAnInternalError) {
    for (const ErrorKind kind :
         {ErrorKind::BadInput, ErrorKind::NoInput, ErrorKind::CountMismatch, ErrorKind::Config, ErrorKind{12345}})
        EXPECT_EQ(outcome_of(Error(kind, "why")), std::pair(std::int32_t{OFFRAMP_INTERNAL}, std::string("why")));
}

TEST(Guarded, AnyOtherExceptionIsACodeAndAText) {
    EXPECT_EQ(outcome_of(std::logic_error("why")), std::pair(std::int32_t{OFFRAMP_INTERNAL}, std::string("why")));
    EXPECT_EQ(outcome_of(std::bad_alloc()).first, OFFRAMP_SYSTEM);
    EXPECT_EQ(outcome_of(5).first, OFFRAMP_INTERNAL);
    EXPECT_NE(outcome_of(5).second, "");
}

TEST(Guarded, ABrokenContractOfTheLibraryEndsTheCallAndNotTheProcess) {
    offramp_error error{};
    const std::int32_t code = guarded(&error, []() -> std::int32_t {
        expect(false, "a slab is given out once");
        return OFFRAMP_OK;
    });
    EXPECT_EQ(code, OFFRAMP_INTERNAL);
    EXPECT_THAT(error.text,
                AllOf(HasSubstr("a bug in Offramp: a slab is given out once, at "), HasSubstr("guarded_test.cpp:")));
}

TEST(Guarded, SecondsAreThoseGivenOrTheDefault) {
    constexpr std::chrono::nanoseconds kDefault{7};
    EXPECT_EQ(seconds_or(0, kDefault, "wait"), kDefault);
    EXPECT_EQ(seconds_or(1.5, kDefault, "wait"), std::chrono::milliseconds(1500));
    EXPECT_EQ(seconds_or(kMostSeconds, kDefault, "wait"), std::chrono::seconds(1'000'000'000));
    for (const double wrong : {-1.0, 2 * kMostSeconds})
        EXPECT_THROW(seconds_or(wrong, kDefault, "wait"), ConfigError) << wrong;
}

}  // namespace
}  // namespace offramp::abi
