#include "common/shm/shared_region.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <boost/interprocess/exceptions.hpp>
#include <boost/interprocess/mapped_region.hpp>
#include <boost/interprocess/shared_memory_object.hpp>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <fstream>
#include <limits>
#include <string>
#include <string_view>
#include <utility>

#include "common/base/error.hpp"
#include "common/base/log.hpp"
#include "common/base/remedy.hpp"
#include "common/base/scarcity.hpp"
#include "common/base/unique_fd.hpp"

namespace offramp {
namespace {

namespace bip = boost::interprocess;

// fallocate starts from the beginning after a signal. Small pieces complete even under a profiler's timer.
constexpr std::size_t kReservedAtOnce = std::size_t{64} << 20;

std::size_t page_bytes() {
    static const auto bytes = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
    return bytes;
}

std::string in_gib(std::uint64_t bytes) {
    char text[32];
    std::snprintf(text, sizeof text, "%.2f GiB", static_cast<double>(bytes) / (1024.0 * 1024.0 * 1024.0));
    return text;
}

[[noreturn]] void throw_full(std::size_t wanted, const MemoryRoom& room, const std::string& what) {
    const std::string tried = "reserving " + in_gib(wanted) + " of shared memory for " + what + " (wanted " +
                              std::to_string(wanted) + " bytes, free " + std::to_string(room.free_bytes) +
                              " bytes = " + in_gib(room.free_bytes) + " according to " + room.source + ")";
    const std::string more =
        room.source == "/dev/shm"
            ? "Enlarge /dev/shm: docker run --shm-size=SIZE (or --ipc=host); in Kubernetes mount an emptyDir {medium: "
              "Memory} at /dev/shm; on a host mount -o remount,size=SIZE /dev/shm"
            : "Shared memory counts against the memory limit: raise docker run --memory=SIZE, Kubernetes "
              "resources.limits.memory (an emptyDir {medium: Memory} counts too) or systemd MemoryMax=SIZE";
    throw SystemError(tried, ENOSPC, more + "; or " + remedy(Remedy::FewerSlabs), ErrorKind::SharedMemoryFull);
}

// A limit on file sizes also applies to shared-memory objects.
[[noreturn]] void throw_too_large_or(const std::string& tried, int problem) {
    throw SystemError(tried, problem, way_to_write(problem, ""),
                      problem == EFBIG ? ErrorKind::CannotWrite : ErrorKind::System);
}

[[noreturn]] void throw_mapping_problem(const std::string& tried, const bip::interprocess_exception& problem) {
    throw SystemError(tried, problem.get_native_error());
}

void advise(const bip::mapped_region& region, int advice, const char* advice_name, const std::string& name) {
    if (::madvise(region.get_address(), region.get_size(), advice) != 0)
        throw SystemError(std::string("madvise ") + advice_name + " on shared memory " + name, errno);
}

// A core dump of slabs would delay the detection of a death, and a forked child would keep a dead run's memory in use.
void keep_private(const bip::mapped_region& region, const std::string& name) {
    advise(region, MADV_DONTDUMP, "MADV_DONTDUMP", name);
    advise(region, MADV_DONTFORK, "MADV_DONTFORK", name);
}

// Call it before populate(), which then allocates huge pages if /dev/shm is mounted with huge=advise. A kernel without
// huge pages refuses, and the pages stay small.
void ask_for_huge_pages(const bip::mapped_region& region) {
    [[maybe_unused]] const int result = ::madvise(region.get_address(), region.get_size(), MADV_HUGEPAGE);
}

void check_name(const std::string& name) {
    expect(name.size() > 1 && name.size() <= 255 && name[0] == '/' && name.find('/', 1) == std::string::npos,
           "a shared-memory name is a slash and up to 254 bytes without another");
}

// Removes the name only if it still refers to this object, and not to an object that another run created since.
bool remove_name(const std::string& name, dev_t device, ino_t inode) noexcept {
    struct stat named = {};
    if (::lstat(("/dev/shm" + name).c_str(), &named) != 0) return errno == ENOENT;
    if (named.st_dev != device || named.st_ino != inode) return true;
    return bip::shared_memory_object::remove(name.c_str());
}

void reserve(int handle, const std::string& name, std::size_t bytes) {
    for (std::size_t done = 0; done < bytes;) {
        const std::size_t piece = std::min(bytes - done, kReservedAtOnce);
        const int problem = ::posix_fallocate(handle, static_cast<off_t>(done), static_cast<off_t>(piece));
        if (problem == EINTR) continue;
        if (problem == ENOSPC) throw_full(bytes, shared_memory_room(), name);
        if (problem != 0)
            throw_too_large_or("reserving " + std::to_string(bytes) + " bytes of shared memory " + name, problem);
        done += piece;
    }
}

// Sets the size without allocating memory: populate() allocates it, or fails.
void set_size(int handle, const std::string& name, std::size_t bytes) {
    if (::ftruncate(handle, static_cast<off_t>(bytes)) != 0)
        throw_too_large_or("sizing shared memory " + name + " to " + std::to_string(bytes) + " bytes", errno);
}

bip::shared_memory_object create_object(const std::string& name, std::size_t bytes, int mode) {
    try {
        return {bip::create_only, name.c_str(), bip::read_write, bip::permissions(mode)};
    } catch (const bip::interprocess_exception& problem) {
        const int reason = problem.get_native_error();
        if (reason == ENOSPC) throw_full(bytes, shared_memory_room(), name);  // no inode left
        throw SystemError("creating shared memory " + name, reason,
                          reason == EEXIST ? "An existing object is never reused: " + remedy(Remedy::SweepMemory) : "");
    }
}

bip::shared_memory_object open_object(const std::string& name, bip::mode_t mode) {
    try {
        return {bip::open_only, name.c_str(), mode};
    } catch (const bip::interprocess_exception& problem) {
        const int reason = problem.get_native_error();
        const std::string tried = "attaching shared memory " + name;
        if (reason == ENOENT)
            throw SystemError(tried, reason, "The run has ended, or was never there", ErrorKind::NoSuchRun);
        if (reason == EACCES)
            throw SystemError(tried, reason, "It belongs to another user. " + remedy(Remedy::OpenToAnotherUser),
                              ErrorKind::NotPermitted);
        throw SystemError(tried, reason);
    }
}

#ifdef MADV_POPULATE_WRITE
constexpr int kPopulateWrite = MADV_POPULATE_WRITE;
#else
constexpr int kPopulateWrite = 23;     // C libraries older than the kernel do not define it
#endif

// The number in a control file; nothing for "max", another text, or a missing file.
std::optional<std::uint64_t> read_number(const std::string& file) {
    std::ifstream in(file);
    std::string word;
    if (!(in >> word)) return std::nullopt;
    std::uint64_t value = 0;
    const auto [end, problem] = std::from_chars(word.data(), word.data() + word.size(), value);
    if (problem != std::errc{} || end != word.data() + word.size()) return std::nullopt;
    return value;
}

std::uint64_t file_cache_bytes(const std::string& stat_file, std::string_view prefix) {
    std::ifstream in(stat_file);
    std::string key;
    std::uint64_t value = 0;
    std::uint64_t sum = 0;
    while (in >> key >> value) {
        if (key == std::string(prefix) + "active_file" || key == std::string(prefix) + "inactive_file") sum += value;
    }
    return sum;
}

struct CgroupFiles {
    const char* limit;
    const char* usage;
    const char* stat_prefix;
};
constexpr CgroupFiles kVersion1{"memory.limit_in_bytes", "memory.usage_in_bytes", "total_"};
constexpr CgroupFiles kVersion2{"memory.max", "memory.current", ""};
// Version 1 represents "no limit" by the largest number of whole pages.
constexpr std::uint64_t kNoLimit = std::uint64_t{1} << 60;

// In a container, the mount may show only its own subtree, while the membership names the host's path. So every
// ancestor is checked, down to the mount itself, and missing ones are skipped.
void look_along(const std::string& mount, std::string path, const CgroupFiles& files,
                std::optional<MemoryRoom>& tightest) {
    while (true) {
        const std::string folder = mount + (path == "/" ? "" : path);
        const auto limit = read_number(folder + "/" + files.limit);
        const auto usage = read_number(folder + "/" + files.usage);
        if (limit && usage && *limit < kNoLimit) {
            const std::uint64_t cache = file_cache_bytes(folder + "/memory.stat", files.stat_prefix);
            const std::uint64_t needed = *usage - std::min(*usage, cache);
            const std::uint64_t room = *limit - std::min(*limit, needed);
            if (!tightest || room < tightest->free_bytes) tightest = MemoryRoom{room, folder + "/" + files.limit};
        }
        if (path.empty() || path == "/") return;
        const auto slash = path.rfind('/');
        path.resize(slash == std::string::npos ? 0 : slash);
    }
}

bip::mapped_region mapped_to_write(const bip::shared_memory_object& object, const std::string& name,
                                   std::size_t bytes) {
    bip::mapped_region region;
    try {
        region = bip::mapped_region(object, bip::read_write, 0, bytes);
    } catch (const bip::interprocess_exception& problem) {
        throw_mapping_problem("mapping " + std::to_string(bytes) + " bytes of shared memory " + name, problem);
    }
    keep_private(region, name);
    ask_for_huge_pages(region);
    return region;
}

}  // namespace

// Owns the name until keep_name() or removal.
struct SharedRegion::State {
    State(std::string object_name, const struct stat& object)
        : name(std::move(object_name)), device(object.st_dev), inode(object.st_ino) {}
    State(const State&) = delete;
    State& operator=(const State&) = delete;
    ~State() {
        if (owns_name) remove();
    }

    void remove() noexcept {
        owns_name = false;
        if (!remove_name(name, device, inode)) spdlog::error("shared memory {} could not be removed", name);
    }

    std::string name;
    dev_t device;
    ino_t inode;
    bool owns_name = true;
    bip::mapped_region region;
};

SharedRegion::SharedRegion(std::unique_ptr<State> state) : state_(std::move(state)) {}
SharedRegion::SharedRegion(SharedRegion&&) noexcept = default;
SharedRegion& SharedRegion::operator=(SharedRegion&&) noexcept = default;
SharedRegion::~SharedRegion() = default;

SharedRegion SharedRegion::create(const std::string& name, std::size_t bytes, RegionOptions options) {
    check_name(name);
    expect(bytes > 0, "a shared region has at least one byte");
    require_shared_memory(bytes, name);
    const ForksWait until_it_is_mapped;
    const bip::shared_memory_object object = create_object(name, bytes,
                                                           options.writable_by_group   ? 0660
                                                           : options.readable_by_group ? 0640
                                                                                       : 0600);
    const int handle = object.get_mapping_handle().handle;
    struct stat made = {};
    if (::fstat(handle, &made) != 0) {
        const int reason = errno;
        bip::shared_memory_object::remove(name.c_str());
        throw SystemError("looking at the new shared memory " + name, reason);
    }
    auto state = std::make_unique<State>(name, made);  // from here on a failure removes the name
    if (options.reserve == RegionOptions::Reserve::WhenPopulated && faulting_in_can_fail())
        set_size(handle, name, bytes);
    else
        reserve(handle, name, bytes);
    state->region = mapped_to_write(object, name, bytes);
    return SharedRegion(std::move(state));
}

SharedRegion SharedRegion::adopt(const std::string& name, std::size_t bytes) {
    check_name(name);
    const ForksWait until_it_is_mapped;
    const bip::shared_memory_object object = open_object(name, bip::read_write);
    struct stat found = {};
    if (::fstat(object.get_mapping_handle().handle, &found) != 0)
        throw SystemError("looking at shared memory " + name, errno);
    if (found.st_uid != ::geteuid())
        throw SystemError("taking over shared memory " + name + " of user id " + std::to_string(found.st_uid), EACCES,
                          "", ErrorKind::NotPermitted);
    if (found.st_size == 0)  // its creator died before setting the size
        set_size(object.get_mapping_handle().handle, name, bytes);
    else if (static_cast<std::uint64_t>(found.st_size) != bytes)
        throw ProtocolError("shared memory " + name + " has " + std::to_string(found.st_size) + " bytes, " +
                                std::to_string(bytes) + " are needed to take it over",
                            "Take it over with the options or settings that the run was begun with");
    auto state = std::make_unique<State>(name, found);
    state->owns_name = false;
    state->region = mapped_to_write(object, name, bytes);
    return SharedRegion(std::move(state));
}

const std::string& SharedRegion::name() const { return state_->name; }

std::span<std::byte> SharedRegion::bytes() const {
    return {static_cast<std::byte*>(state_->region.get_address()), state_->region.get_size()};
}

void SharedRegion::populate(std::size_t offset, std::size_t length) {
    const auto all = bytes();
    expect(offset <= all.size() && length <= all.size() - offset, "populate() stays inside the region");
    if (length == 0) return;
    const std::size_t page = page_bytes();
    const std::size_t first = offset / page * page;
    const std::size_t end = (offset + length + page - 1) / page * page;  // the mapping ends on a page too
    fault_in_pages({all.data() + first, end - first});
}

void SharedRegion::keep_name() { state_->owns_name = false; }

void SharedRegion::unlink() noexcept { state_->remove(); }

struct SharedRegionView::State {
    Access access;
    std::string name;
    bip::mapped_region region;
};

SharedRegionView::SharedRegionView(std::unique_ptr<State> state) : state_(std::move(state)) {}
SharedRegionView::SharedRegionView(SharedRegionView&&) noexcept = default;
SharedRegionView& SharedRegionView::operator=(SharedRegionView&&) noexcept = default;
SharedRegionView::~SharedRegionView() = default;

SharedRegionView SharedRegionView::attach(const std::string& name, Access access, std::size_t least_bytes) {
    check_name(name);
    const ForksWait until_it_is_mapped;
    const bip::shared_memory_object object =
        open_object(name, access == Access::ReadWrite ? bip::read_write : bip::read_only);
    bip::offset_t found = 0;
    if (!object.get_size(found)) throw SystemError("asking for the size of shared memory " + name, errno);
    const auto found_bytes = static_cast<std::uint64_t>(found);
    if (found_bytes == 0 || found_bytes < least_bytes || found_bytes > std::numeric_limits<std::size_t>::max())
        throw ProtocolError("shared memory " + name + " has " + std::to_string(found_bytes) + " bytes, at least " +
                                std::to_string(std::max<std::size_t>(least_bytes, 1)) + " are needed",
                            "Producer and consumer must be of the same version");
    auto state = std::make_unique<State>(State{access, name, {}});
    try {
        const bip::mode_t mode = access == Access::ReadOnly    ? bip::read_only
                                 : access == Access::ReadWrite ? bip::read_write
                                                               : bip::copy_on_write;
        // A private mapping of a whole slab would otherwise count in full against the machine's commit limit.
        const bip::map_options_t flags = access == Access::CopyOnWrite ? MAP_NORESERVE : bip::default_map_options;
        state->region = bip::mapped_region(object, mode, 0, static_cast<std::size_t>(found), nullptr, flags);
    } catch (const bip::interprocess_exception& problem) {
        throw_mapping_problem("mapping " + std::to_string(found_bytes) + " bytes of shared memory " + name, problem);
    }
    keep_private(state->region, name);
    return SharedRegionView(std::move(state));
}

std::span<const std::byte> SharedRegionView::bytes() const {
    return {static_cast<const std::byte*>(state_->region.get_address()), state_->region.get_size()};
}

void SharedRegionView::populate() const {
#ifdef MADV_POPULATE_READ
    constexpr int kPopulateRead = MADV_POPULATE_READ;
#else
    constexpr int kPopulateRead = 22;  // C libraries older than the kernel do not define it
#endif
    [[maybe_unused]] const int result =
        ::madvise(state_->region.get_address(), state_->region.get_size(), kPopulateRead);
}

std::span<std::byte> SharedRegionView::writable_bytes() const {
    expect(state_->access != Access::ReadOnly, "a read-only view is not written to");
    return {static_cast<std::byte*>(state_->region.get_address()), state_->region.get_size()};
}

void SharedRegionView::drop_private_pages(std::size_t offset, std::size_t length) {
    expect(state_->access == Access::CopyOnWrite, "only a copy-on-write view has private pages");
    const auto all = writable_bytes();
    expect(offset % page_bytes() == 0, "private pages are dropped from a page boundary on");
    expect(offset <= all.size() && length <= all.size() - offset, "drop_private_pages() stays inside the region");
    if (length > 0 && ::madvise(all.data() + offset, length, MADV_DONTNEED) != 0)
        throw SystemError("dropping the private pages of shared memory " + state_->name, errno);
}

void require_shared_memory(std::size_t bytes, const std::string& what) {
    const MemoryRoom file_system = shared_memory_room();
    if (bytes > file_system.free_bytes) throw_full(bytes, file_system, what);
    const auto cgroup = cgroup_memory_room();
    if (cgroup && bytes > cgroup->free_bytes) throw_full(bytes, *cgroup, what);
}

void fault_in_pages(std::span<std::byte> pages) {
    if (pages.empty()) return;
    while (::madvise(pages.data(), pages.size(), kPopulateWrite) != 0) {
        if (errno == EINTR || errno == EAGAIN) continue;
        if (errno == EINVAL || errno == ENOSYS) return touch_pages(pages);
        // EFAULT means that touching the pages would raise SIGBUS: the file system is full.
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
        // Atomic, so that it does not undo a concurrent store of another thread or process.
        std::atomic_ref<unsigned char> first(*reinterpret_cast<unsigned char*>(&pages[at]));
        first.fetch_or(0, std::memory_order_relaxed);
    }
}

std::optional<MemoryRoom> cgroup_memory_room(const std::string& cgroup_mount, const std::string& membership_file) {
    std::optional<MemoryRoom> tightest;
    std::ifstream in(membership_file);
    std::string line;
    while (std::getline(in, line)) {  // "hierarchy:controllers:path"
        const auto first = line.find(':');
        const auto second = first == std::string::npos ? first : line.find(':', first + 1);
        if (second == std::string::npos) continue;
        const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
        const std::string path = line.substr(second + 1);
        if (controllers == ",,") look_along(cgroup_mount, path, kVersion2, tightest);
        if (controllers.find(",memory,") != std::string::npos)
            look_along(cgroup_mount + "/memory", path, kVersion1, tightest);
    }
    return tightest;
}

MemoryRoom shared_memory_room() {
    struct statvfs shm = {};
    if (::statvfs("/dev/shm", &shm) != 0)
        throw SystemError("asking for the free space of /dev/shm", errno,
                          "POSIX shared memory needs a tmpfs mounted there: mount -t tmpfs tmpfs /dev/shm");
    // A tmpfs without a size limit reports no blocks at all.
    const std::uint64_t free_bytes =
        shm.f_blocks == 0 ? std::numeric_limits<std::uint64_t>::max() : std::uint64_t{shm.f_bavail} * shm.f_frsize;
    return {free_bytes, "/dev/shm"};
}

}  // namespace offramp
