#include "common/shm/page_faulting.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <string>

#include "common/base/error.hpp"

namespace offramp {
namespace {

#ifdef MADV_POPULATE_WRITE
constexpr int kPopulateWrite = MADV_POPULATE_WRITE;
#else
constexpr int kPopulateWrite = 23;  // C libraries older than the kernel lack the name
#endif

}  // namespace

void fault_in_pages(std::span<std::byte> pages) {
    if (pages.empty()) return;
    while (::madvise(pages.data(), pages.size(), kPopulateWrite) != 0) {
        if (errno == EINTR || errno == EAGAIN) continue;
        if (errno == EINVAL || errno == ENOSYS) return touch_pages(pages);
        // The kernel's word for pages whose touching would be a SIGBUS: the file system has no more.
        if (errno == EFAULT)
            throw SystemError("faulting in " + std::to_string(pages.size()) + " bytes of shared memory", ENOSPC,
                              "/dev/shm is full: enlarge it, or use fewer or smaller slabs",
                              ErrorKind::SharedMemoryFull);
        throw SystemError("faulting in " + std::to_string(pages.size()) + " bytes of shared memory", errno,
                          "The machine or its cgroup ran out of memory: use fewer or smaller slabs");
    }
}

bool faulting_in_can_fail() {
    static const bool known = [] {
        const auto bytes = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
        void* const page = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (page == MAP_FAILED) return false;
        const bool works = ::madvise(page, bytes, kPopulateWrite) == 0;
        ::munmap(page, bytes);
        return works;
    }();
    return known;
}

void touch_pages(std::span<std::byte> pages) noexcept {
    const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
    for (std::size_t at = 0; at < pages.size(); at += page) {
        // Atomic, so that a store of another thread or process in between is not undone.
        std::atomic_ref<unsigned char> first(*reinterpret_cast<unsigned char*>(&pages[at]));
        first.fetch_or(0, std::memory_order_relaxed);
    }
}

}  // namespace offramp
