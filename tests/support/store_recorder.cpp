#include "tests/support/store_recorder.hpp"

#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>

#include "common/base/error.hpp"

namespace offramp {
namespace {

constexpr std::size_t kPageBytes = 4096;
constexpr std::size_t kWords = kPageBytes / sizeof(std::uint64_t);
constexpr std::size_t kMostStores = 64;
constexpr greg_t kTrapFlag = 0x100;

struct Record {
    std::size_t count = 0;
    std::array<StoreRecorder::Store, kMostStores> stores;
    std::array<std::uint64_t, kWords> seen;
};

// The only state of the signal handlers.
std::uint64_t* page = nullptr;
Record* record_of_page = nullptr;

void protect(int access) {
    if (::mprotect(page, kPageBytes, access) != 0) ::_exit(99);
}

void skip_fault(int, siginfo_t* fault, void* context) {
    const auto offset = reinterpret_cast<std::uintptr_t>(fault->si_addr) - reinterpret_cast<std::uintptr_t>(page);
    if (page == nullptr || offset >= kPageBytes) {
        ::signal(SIGSEGV, SIG_DFL);  // a foreign fault: it repeats and ends the process
        return;
    }
    protect(PROT_READ | PROT_WRITE);
    static_cast<ucontext_t*>(context)->uc_mcontext.gregs[REG_EFL] |= kTrapFlag;
}

void note_it(int, siginfo_t*, void* context) {
    Record& record = *record_of_page;
    for (std::size_t word = 0; word < kWords; ++word) {
        if (page[word] == record.seen[word]) continue;
        if (record.count == kMostStores) ::_exit(98);
        record.seen[word] = page[word];
        record.stores[record.count++] = {word, page[word]};
    }
    protect(PROT_READ);
    static_cast<ucontext_t*>(context)->uc_mcontext.gregs[REG_EFL] &= ~kTrapFlag;
}

void* shared_pages(std::size_t bytes) {
    void* const memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw SystemError("mapping memory for a recorder of stores", errno);
    return memory;
}

void handle(int signal, void (*handler)(int, siginfo_t*, void*)) {
    struct sigaction action {};
    action.sa_flags = SA_SIGINFO;
    action.sa_sigaction = handler;
    ::sigaction(signal, &action, nullptr);
}

}  // namespace

StoreRecorder::StoreRecorder() {
    expect(page == nullptr, "one recorder of stores at a time");
    page = static_cast<std::uint64_t*>(shared_pages(kPageBytes));
    record_of_page = static_cast<Record*>(shared_pages(sizeof(Record)));
    handle(SIGSEGV, skip_fault);
    handle(SIGTRAP, note_it);
}

StoreRecorder::~StoreRecorder() {
    ::signal(SIGSEGV, SIG_DFL);
    ::signal(SIGTRAP, SIG_DFL);
    ::munmap(page, kPageBytes);
    ::munmap(record_of_page, sizeof(Record));
    page = nullptr;
}

std::span<std::uint64_t> StoreRecorder::words() { return {page, kWords}; }

void StoreRecorder::record(const std::function<void()>& steps) {
    record_of_page->count = 0;
    std::copy_n(page, kWords, record_of_page->seen.begin());
    protect(PROT_READ);
    steps();
    protect(PROT_READ | PROT_WRITE);
}

std::vector<StoreRecorder::Store> StoreRecorder::stores() const {
    return {record_of_page->stores.begin(),
            record_of_page->stores.begin() + static_cast<std::ptrdiff_t>(record_of_page->count)};
}

}  // namespace offramp
