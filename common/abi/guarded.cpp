#include "common/abi/guarded.hpp"

#include <algorithm>
#include <array>
#include <exception>
#include <new>

#include "common/base/error.hpp"
#include "common/base/utf8.hpp"
#include "common/base/version.hpp"

namespace offramp::abi {
namespace {

constexpr std::size_t kMostOfAStruct = 4096;  // limit for any version; a larger size cannot be valid

thread_local int releases_at_work = 0;

}  // namespace

std::int32_t refused(offramp_error* error, std::int32_t code, std::string_view text) noexcept {
    if (error == nullptr) return code;
    error->code = code;
    const std::string_view whole = utf8_prefix(text, sizeof error->text - 1);
    std::ranges::copy(whole, error->text);
    error->text[whole.size()] = '\0';
    return code;
}

std::int32_t code_of(ErrorKind kind) noexcept {
    const std::int32_t code = to_int(kind);
    return offramp_code_name(code) == std::string_view("?") ? OFFRAMP_INTERNAL : code;
}

WithinRelease::WithinRelease() noexcept { ++releases_at_work; }
WithinRelease::~WithinRelease() { --releases_at_work; }

std::int32_t guarded(offramp_error* error, const std::function<std::int32_t()>& body) noexcept {
    if (releases_at_work > 0)
        return refused(error, OFFRAMP_BAD_ARGUMENT,
                       "a batch's `release` called the library, which would deadlock. Only record there that the "
                       "tensors are free, and call the library later or from another thread");
    try {
        const std::int32_t code = body();
        if (code == OFFRAMP_OK) refused(error, code, {});
        return code;
    } catch (const Error& problem) {
        return refused(error, code_of(problem.kind()), problem.what());
    } catch (const std::bad_alloc&) {
        return refused(error, OFFRAMP_SYSTEM, "out of memory");
    } catch (const std::exception& problem) {
        return refused(error, OFFRAMP_INTERNAL, problem.what());
    } catch (...) {
        return refused(error, OFFRAMP_INTERNAL, "an exception of an unknown kind");
    }
}

void require_struct(const void* given, std::size_t size, std::size_t least, const char* name) {
    if (given == nullptr) throw ConfigError(std::string(name) + " is null", "Give the address of one");
    if (size < least || size > kMostOfAStruct || size % alignof(void*) != 0)  // a size must not cut a pointer
        throw ConfigError(std::string(name) + " has a `size` of " + std::to_string(size) +
                              " bytes and needs at least " + std::to_string(least),
                          "Set its first field, `size`, to the struct's sizeof");
}

std::chrono::nanoseconds seconds_or(double seconds, std::chrono::nanoseconds otherwise, const char* name) {
    if (seconds == 0) return otherwise;
    if (!(seconds > 0 && seconds <= kMostSeconds))
        throw ConfigError(std::string(name) + " is " + std::to_string(seconds),
                          "Give seconds, more than 0, or 0 for the default");
    return std::chrono::nanoseconds(static_cast<std::int64_t>(seconds * 1e9));
}

}  // namespace offramp::abi

extern "C" {

const char* offramp_version(void) {
    static const std::string version(offramp::program_version());
    return version.c_str();
}

const char* offramp_code_name(std::int32_t code) {
    switch (code) {
        case OFFRAMP_OK:
            return "OFFRAMP_OK";
        case OFFRAMP_INTERNAL:
            return "OFFRAMP_INTERNAL";
        case OFFRAMP_TIMEOUT:
            return "OFFRAMP_TIMEOUT";
        case OFFRAMP_WRONG_PROCESS:
            return "OFFRAMP_WRONG_PROCESS";
        case OFFRAMP_CALLBACK_FAILED:
            return "OFFRAMP_CALLBACK_FAILED";
        case OFFRAMP_FAILED:
            return "OFFRAMP_FAILED";
        case OFFRAMP_REJECTED:
            return "OFFRAMP_REJECTED";
        case OFFRAMP_BAD_ARGUMENT:
            return "OFFRAMP_BAD_ARGUMENT";
        case OFFRAMP_NO_SUCH_RUN:
            return "OFFRAMP_NO_SUCH_RUN";
        case OFFRAMP_SYSTEM:
            return "OFFRAMP_SYSTEM";
        case OFFRAMP_CANNOT_WRITE:
            return "OFFRAMP_CANNOT_WRITE";
        case OFFRAMP_RETRY:
            return "OFFRAMP_RETRY";
        case OFFRAMP_PROTOCOL:
            return "OFFRAMP_PROTOCOL";
        case OFFRAMP_NOT_PERMITTED:
            return "OFFRAMP_NOT_PERMITTED";
        case OFFRAMP_SHARED_MEMORY_FULL:
            return "OFFRAMP_SHARED_MEMORY_FULL";
        case OFFRAMP_DEVICE_OUT_OF_MEMORY:
            return "OFFRAMP_DEVICE_OUT_OF_MEMORY";
        case OFFRAMP_DEVICE_BROKEN:
            return "OFFRAMP_DEVICE_BROKEN";
        case OFFRAMP_DEVICE_UNSUPPORTED:
            return "OFFRAMP_DEVICE_UNSUPPORTED";
        case OFFRAMP_RUN_IN_USE:
            return "OFFRAMP_RUN_IN_USE";
        case OFFRAMP_PRODUCER_GONE:
            return "OFFRAMP_PRODUCER_GONE";
        case OFFRAMP_STOPPED:
            return "OFFRAMP_STOPPED";
    }
    return "?";
}

}  // extern "C"
