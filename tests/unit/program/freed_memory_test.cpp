#include "common/app/program/own_process.hpp"
#include "tests/support/sanitizers.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cstdlib>
#include <cstring>

namespace offramp {
namespace {

constexpr std::size_t kBytes = std::size_t{96} << 20U;  // more than glibc's largest threshold

long faults_of_filling() {
    rusage before{};
    rusage after{};
    ::getrusage(RUSAGE_SELF, &before);
    void* const memory = std::malloc(kBytes);
    std::memset(memory, 1, kBytes);
    std::free(memory);
    ::getrusage(RUSAGE_SELF, &after);
    return after.ru_minflt - before.ru_minflt;
}

TEST(FreedMemory, IsRefilledWithoutPageFaults) {
    if (test::has_sanitizer()) GTEST_SKIP() << "a sanitizer has its own allocator";
    const long given_back = faults_of_filling() + faults_of_filling();
    keep_freed_memory();
    const long first = faults_of_filling();
    EXPECT_LT(faults_of_filling() + faults_of_filling(), 16);
    EXPECT_GT(given_back, first + 16) << "without it, each round faults again";
}

}  // namespace
}  // namespace offramp
