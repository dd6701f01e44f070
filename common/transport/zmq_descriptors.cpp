#include "common/transport/zmq_descriptors.hpp"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>
#include <zmq.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <memory>
#include <mutex>
#include <new>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/error.hpp"
#include "common/base/log.hpp"
#include "common/base/unique_fd.hpp"

namespace offramp {
namespace {

// Descriptors of a context: one for its end, and one each for the threads that close and serve sockets.
constexpr std::size_t kEventfdsOfAContext = 3;
constexpr std::size_t kEpollsOfAContext = 2;

// Held during a fork, so that a child has only its own doors, and none is half changed.
std::mutex& doors_mutex() {
    static std::mutex& made = *new std::mutex;
    return made;
}
constinit ZmqDoor* first_door = nullptr;

// The descriptors for the context that this thread is creating.
constinit thread_local ZmqDescriptors* being_made = nullptr;
// True in a thread that Offramp's context has started.
constinit thread_local bool is_a_contexts_thread = false;

int take_last(std::vector<int>& fds) noexcept {
    if (fds.empty()) return -1;
    const int fd = fds.back();
    fds.pop_back();
    return fd;
}

}  // namespace

// libzmq calls these instead of the system's functions with the same names. They do not throw.
struct ZmqCalls {
    // Call it under the mutex.
    static ZmqDoor* door_of(int fd) noexcept {
        ZmqDoor* door = first_door;
        while (door != nullptr && door->fd_ != fd) door = door->next_;
        return door;
    }

    static int accept4(int listening, sockaddr* address, socklen_t* length, int flags) noexcept {
        ZmqDoor* door = nullptr;
        {
            const std::lock_guard guard(doors_mutex());
            door = door_of(listening);
        }
        if (door == nullptr) return ::accept4(listening, address, length, flags);
        const int fd = open_process_own([&] { return ::accept4(listening, address, length, flags); });
        const int problem = errno;
        if (fd >= 0 && door->limit_.accepted(fd)) return fd;
        if (fd >= 0) close_process_own(fd);
        const bool is_usual =
            fd >= 0 || problem == EAGAIN || problem == EINTR || problem == ECONNABORTED || problem == EPROTO;
        if (!is_usual) rest(*door, problem);
        errno = EAGAIN;
        return -1;
    }
    static int accept(int listening, sockaddr* address, socklen_t* length) noexcept {
        return accept4(listening, address, length, 0);
    }
    // A listening socket stays readable while a peer waits, and libzmq would retry in a busy loop.
    static void rest(ZmqDoor& door, int problem) noexcept {
        bool is_first = false;
        {
            const std::lock_guard guard(doors_mutex());
            epoll_event nothing = door.event_;
            nothing.events = 0;
            door.is_at_rest_ = ::epoll_ctl(door.epoll_, EPOLL_CTL_MOD, door.fd_, &nothing) == 0;
            is_first = !std::exchange(door.was_reported_, true);
        }
        if (is_first) spdlog::warn("{}", SystemError("a connecting consumer has to wait", problem).what());
    }

    static int epoll_ctl(int epoll, int operation, int fd, epoll_event* event) noexcept {
        {
            const std::lock_guard guard(doors_mutex());
            ZmqDoor* const door = operation == EPOLL_CTL_DEL ? nullptr : door_of(fd);
            if (door != nullptr) {
                door->epoll_ = epoll;
                door->event_ = *event;
            }
        }
        return ::epoll_ctl(epoll, operation, fd, event);
    }
    static int close(int fd) noexcept {
        {
            const std::lock_guard guard(doors_mutex());
            for (ZmqDoor* door = first_door; door != nullptr; door = door->next_) {
                door->limit_.disconnected(fd);
                if (door->fd_ == fd) door->fd_ = -1;
            }
        }
        return close_process_own(fd);
    }

    static int eventfd(unsigned int value, int flags) noexcept {
        if (being_made == nullptr) return ::eventfd(value, flags);
        const int fd = take_last(being_made->eventfds_);
        return fd >= 0 ? fd : open_process_own([&] { return ::eventfd(value, flags); });
    }
    static int epoll_create1(int flags) noexcept {
        if (being_made == nullptr) return ::epoll_create1(flags);
        const int fd = take_last(being_made->epolls_);
        return fd >= 0 ? fd : open_process_own([&] { return ::epoll_create1(flags); });
    }
    static int socket(int domain, int type, int protocol) noexcept {
        if (being_made == nullptr && !is_a_contexts_thread) return ::socket(domain, type, protocol);
        return open_process_own([&] { return ::socket(domain, type, protocol); });
    }

    struct Start {
        void* (*routine)(void*);
        void* argument;
    };
    static void* in_a_contexts_thread(void* given) {
        const std::unique_ptr<Start> start(static_cast<Start*>(given));
        is_a_contexts_thread = true;
        return start->routine(start->argument);
    }
    static int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*routine)(void*),
                              void* argument) noexcept {
        if (being_made == nullptr) return ::pthread_create(thread, attributes, routine, argument);
        std::unique_ptr<Start> start(new (std::nothrow) Start{routine, argument});
        if (!start) return EAGAIN;
        const int problem = ::pthread_create(thread, attributes, &in_a_contexts_thread, start.get());
        if (problem == 0) static_cast<void>(start.release());
        return problem;
    }
};

namespace {

void lock_doors() { doors_mutex().lock(); }
void unlock_doors() { doors_mutex().unlock(); }
// In a child: the doors belong to the parent.
void forget_doors() {
    first_door = nullptr;
    doors_mutex().unlock();
}

template <typename Function>
RedirectedImport import_of(const char* name, Function* replacement) {
    return {name, reinterpret_cast<void*>(replacement)};
}

bool are_in_one_object(const void* one, const void* other) {
    Dl_info of_one{}, of_other{};
    return ::dladdr(one, &of_one) != 0 && ::dladdr(other, &of_other) != 0 && of_one.dli_fbase == of_other.dli_fbase;
}

void redirect_libzmq() {
    // Register it once, even if the redirection fails and is retried: a handler registered twice would lock twice.
    static const int atfork_problem = ::pthread_atfork(lock_doors, unlock_doors, forget_doors);
    if (atfork_problem != 0) throw SystemError("registering a fork handler", atfork_problem);
    static const bool is_done = [] {
        const std::array needed{
            import_of("accept4", &ZmqCalls::accept4),
            import_of("close", &ZmqCalls::close),
            import_of("epoll_create1", &ZmqCalls::epoll_create1),
            import_of("epoll_ctl", &ZmqCalls::epoll_ctl),
            import_of("eventfd", &ZmqCalls::eventfd),
            import_of("pthread_create", &ZmqCalls::pthread_create),
            import_of("socket", &ZmqCalls::socket),
        };
        const std::array others{import_of("accept", &ZmqCalls::accept)};
        const auto* const in_libzmq = reinterpret_cast<const void*>(&::zmq_ctx_new);
        // The functions in this file must still call the system's functions.
        const bool is_shared = !are_in_one_object(in_libzmq, reinterpret_cast<const void*>(&ZmqCalls::accept4));
        if (!is_shared || redirect_imports(in_libzmq, needed) != needed.size())
            throw Error(ErrorKind::System, "this libzmq opens file descriptors with unknown functions",
                        "Use a libzmq 4.3 that is a shared library, such as Debian's libzmq5");
        redirect_imports(in_libzmq, others);
        return true;
    }();
    static_cast<void>(is_done);
}

}  // namespace

ZmqDescriptors::ZmqDescriptors(const std::string& what, std::size_t sockets, std::size_t room) {
    expect(being_made == nullptr, "a thread makes one context at a time");
    redirect_libzmq();
    const auto add = [&](std::vector<int>& fds, int (*open)()) {
        fds.reserve(fds.size() + 1);
        const int fd = open_process_own(open);
        if (fd < 0) {
            const int problem = errno;
            close_all();
            throw SystemError(what, problem);
        }
        fds.push_back(fd);
    };
    for (std::size_t i = 0; i < kEpollsOfAContext; ++i) add(epolls_, [] { return ::epoll_create1(EPOLL_CLOEXEC); });
    for (std::size_t i = 0; i < kEventfdsOfAContext + sockets + room; ++i)
        add(eventfds_, [] { return ::eventfd(0, EFD_CLOEXEC); });
    being_made = this;
}

ZmqDescriptors::~ZmqDescriptors() {
    being_made = nullptr;
    close_all();
}

void ZmqDescriptors::close_all() noexcept {
    for (int fd = take_last(eventfds_); fd >= 0; fd = take_last(eventfds_)) close_process_own(fd);
    for (int fd = take_last(epolls_); fd >= 0; fd = take_last(epolls_)) close_process_own(fd);
}

ZmqDoor::ZmqDoor(ConnectionLimit& limit)
    : limit_(limit),
      fd_(open_process_own([] { return ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0); })) {
    if (fd_ < 0) throw SystemError("making a listening socket", errno);
    const std::lock_guard guard(doors_mutex());
    next_ = std::exchange(first_door, this);
}

ZmqDoor::~ZmqDoor() {
    {
        const std::lock_guard guard(doors_mutex());
        ZmqDoor** place = &first_door;
        while (*place != nullptr && *place != this) place = &(*place)->next_;
        if (*place != nullptr) *place = next_;
    }
    if (!is_disowned_) close_process_own(fd_);
}

void ZmqDoor::retry() noexcept {
    const std::lock_guard guard(doors_mutex());
    if (!is_at_rest_ || fd_ < 0) return;
    is_at_rest_ = false;
    ::epoll_ctl(epoll_, EPOLL_CTL_MOD, fd_, &event_);
}

namespace {

#if defined(__x86_64__)
constexpr std::uint64_t kTypesOfImports[] = {R_X86_64_JUMP_SLOT, R_X86_64_GLOB_DAT};
#elif defined(__aarch64__)
constexpr std::uint64_t kTypesOfImports[] = {R_AARCH64_JUMP_SLOT, R_AARCH64_GLOB_DAT};
#else
#error "how this processor's shared libraries call imported functions is not known here"
#endif

using Slot = void*;

struct Pages {
    std::uintptr_t begin = 0;
    std::uintptr_t end = 0;

    bool contains(std::uintptr_t address) const { return address >= begin && address < end; }
};

std::uintptr_t page_of(std::uintptr_t address) {
    static const auto bytes = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
    return address / bytes * bytes;
}

// A loaded library's own tables, in the dynamic loader's form.
class LoadedLibrary {
  public:
    explicit LoadedLibrary(const dl_phdr_info& info) : base_(info.dlpi_addr) {
        for (const ElfW(Phdr) & part : std::span(info.dlpi_phdr, info.dlpi_phnum)) {
            const std::uintptr_t begin = base_ + part.p_vaddr;
            if (part.p_type == PT_LOAD) loaded_.push_back({begin, begin + part.p_memsz});
            if (part.p_type == PT_GNU_RELRO) read_only_ = {page_of(begin), page_of(begin + part.p_memsz)};
            if (part.p_type == PT_DYNAMIC) dynamic_ = at<ElfW(Dyn)>(begin);
        }
    }

    bool contains(std::uintptr_t address) const {
        return std::ranges::any_of(loaded_, [address](const Pages& part) { return part.contains(address); });
    }

    // The slots in which the library stores the address of the function that it imports by this name.
    std::vector<Slot*> slots_of(std::string_view name) const {
        std::vector<Slot*> found;
        const auto* symbols = table<ElfW(Sym)>(DT_SYMTAB);
        const char* names = table<char>(DT_STRTAB);
        if (symbols == nullptr || names == nullptr) return found;
        const auto look_in = [&](ElfW(Sxword) where, ElfW(Sxword) bytes) {
            const auto* const first = table<ElfW(Rela)>(where);
            if (first == nullptr) return;
            for (const ElfW(Rela) & entry : std::span(first, value(bytes) / sizeof *first)) {
                if (std::ranges::find(kTypesOfImports, ELF64_R_TYPE(entry.r_info)) == std::end(kTypesOfImports))
                    continue;
                const ElfW(Sym)& symbol = symbols[ELF64_R_SYM(entry.r_info)];
                if (name == names + symbol.st_name) found.push_back(at<Slot>(base_ + entry.r_offset));
            }
        };
        look_in(DT_JMPREL, DT_PLTRELSZ);
        look_in(DT_RELA, DT_RELASZ);
        return found;
    }

    // Makes the page, which the loader has write-protected, writable for one word.
    void write(Slot* slot, void* replacement) const {
        const auto address = reinterpret_cast<std::uintptr_t>(slot);
        const bool is_protected = read_only_.contains(address);
        if (is_protected) protect(address, PROT_READ | PROT_WRITE);
        std::atomic_ref<Slot>(*slot).store(replacement, std::memory_order_release);
        if (is_protected) protect(address, PROT_READ);
    }

  private:
    template <typename T>
    static T* at(std::uintptr_t address) {
        return reinterpret_cast<T*>(address);  // NOLINT(performance-no-int-to-ptr): addresses of tables are numbers
    }
    ElfW(Xword) value(ElfW(Sxword) tag) const {
        for (const ElfW(Dyn)* entry = dynamic_; entry != nullptr && entry->d_tag != DT_NULL; ++entry)
            if (entry->d_tag == tag) return entry->d_un.d_val;
        return 0;
    }
    // glibc adds the base to addresses in place; other loaders do not.
    template <typename T>
    const T* table(ElfW(Sxword) tag) const {
        const std::uintptr_t address = value(tag);
        if (address == 0) return nullptr;
        return at<const T>(address < base_ ? base_ + address : address);
    }
    static void protect(std::uintptr_t address, int access) {
        const auto page = page_of(address);
        const auto bytes = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
        if (::mprotect(at<void>(page), bytes, access) != 0)
            throw SystemError("changing the protection of a shared library's table of imports", errno);
    }

    std::uintptr_t base_;
    std::vector<Pages> loaded_;
    Pages read_only_;
    const ElfW(Dyn) * dynamic_ = nullptr;
};

struct Search {
    std::uintptr_t function;
    std::vector<LoadedLibrary> found;
};

int look_at(dl_phdr_info* info, std::size_t /*size*/, void* context) {
    auto& search = *static_cast<Search*>(context);
    LoadedLibrary library(*info);
    if (!library.contains(search.function)) return 0;
    search.found.push_back(std::move(library));
    return 1;
}

}  // namespace

std::size_t redirect_imports(const void* function, std::span<const RedirectedImport> imports) {
    Search search{reinterpret_cast<std::uintptr_t>(function), {}};
    ::dl_iterate_phdr(&look_at, &search);
    std::size_t redirected = 0;
    for (const LoadedLibrary& library : search.found)
        for (const RedirectedImport& import : imports) {
            const auto slots = library.slots_of(import.name);
            for (Slot* const slot : slots) library.write(slot, import.replacement);
            redirected += slots.empty() ? 0 : 1;
        }
    return redirected;
}

}  // namespace offramp
