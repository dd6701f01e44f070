#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

namespace offramp {

// The access to a region beyond its owner, and the time of its allocation.
struct RegionOptions {
    bool readable_by_group = false;  // mode 0640 instead of 0600
    bool writable_by_group = false;  // mode 0660: the heartbeat records of consumers of another user
    // WhenPopulated: create() only names and maps, populate() takes the memory, by several threads in parallel where
    // fallocate is one; the caller populates every byte before any is touched. On kernels whose populate() cannot fail
    // (before 5.14): Now.
    enum class Reserve { Now, WhenPopulated };
    Reserve reserve = Reserve::Now;
};

// Owns one named POSIX shared-memory object and a writable mapping of it. The only writers are its creator, or its
// successor once the creator is dead, and, for the cells object, consumers through SharedRegionView.
//
// Owns: the mapping; and the name, which the destructor removes unless keep_name() was called.
// Thread: any, one at a time; populate() may run concurrently on disjoint ranges.
// Blocks: create() while the file system reserves the bytes (about 3 GB/s); populate().
// Errors: SystemError names object, bytes and errno. When the file system or the cgroup is too small:
// SystemError with
//         ErrorKind::SharedMemoryFull, wanted and free bytes and the remedy, before any page is touched and
//         with nothing left behind; never a SIGBUS afterwards.
// The mapping is MADV_DONTDUMP: a core dump of slabs would delay the news of a death by a second; MADV_DONTFORK: a
// forked child would keep the memory of a dead run in use; and MADV_HUGEPAGE:
// memory that populate() takes is in huge pages where /dev/shm is mounted with huge=advise.
class SharedRegion {
  public:
    // Fails when the name exists (O_EXCL). `name` starts with a slash.
    static SharedRegion create(const std::string& name, std::size_t bytes, RegionOptions options = {});
    // Takes over an object whose creator is dead, as it is; its name is not owned, so that a failure leaves it to be
    // taken over again. One that was not sized yet is sized, for populate() to fill. Errors: ProtocolError for another
    // size than `bytes`, NotPermitted for another user's, NoSuchRun when there is none.
    static SharedRegion adopt(const std::string& name, std::size_t bytes);

    SharedRegion(SharedRegion&&) noexcept;
    SharedRegion& operator=(SharedRegion&&) noexcept;
    ~SharedRegion();

    const std::string& name() const;
    std::span<std::byte> bytes() const;
    // Faults the pages of [offset, offset + length), widened to whole pages, in for writing.
    // Errors: SystemError, with ErrorKind::SharedMemoryFull if there is no room.
    void populate(std::size_t offset, std::size_t length);
    // The destructor leaves the name for others.
    void keep_name();
    // Removes the name now, if it still refers to this object; the mapping stays.
    void unlink() noexcept;

  private:
    struct State;
    explicit SharedRegion(std::unique_ptr<State> state);
    std::unique_ptr<State> state_;
};

// Maps an existing object: read-only, for its own notes writable, or copy-on-write. Never creates, never
// removes. The mapping is MADV_DONTDUMP and MADV_DONTFORK: a forked child must not go on reading when its
// parent's death has been seen.
class SharedRegionView {
  public:
    enum class Access { ReadOnly, ReadWrite, CopyOnWrite };

    // `least_bytes`: an object that is smaller is refused with ProtocolError. Errors: SystemError; with
    // ErrorKind::NoSuchRun if the object does not exist (the run has ended, or was never there), NotPermitted when it
    // is another user's.
    static SharedRegionView attach(const std::string& name, Access access, std::size_t least_bytes);

    SharedRegionView(SharedRegionView&&) noexcept;
    SharedRegionView& operator=(SharedRegionView&&) noexcept;
    ~SharedRegionView();

    std::span<const std::byte> bytes() const;
    // Maps every page for reading now (MADV_POPULATE_READ), so that no later read faults. Where the kernel cannot,
    // nothing.
    void populate() const;
    // Broken contract unless attached ReadWrite or CopyOnWrite.
    std::span<std::byte> writable_bytes() const;
    // CopyOnWrite: drops the private pages, so that the object's own bytes are seen again. Whole pages:
    // `offset` on a page boundary, `length` is rounded up.
    void drop_private_pages(std::size_t offset, std::size_t length);

  private:
    struct State;
    explicit SharedRegionView(std::unique_ptr<State> state);
    std::unique_ptr<State> state_;
};

// Throws the error that SharedRegion::create would throw when `bytes` do not fit into /dev/shm or the
// cgroup's memory limit now: for checking a whole pool before its first object is made.
// ErrorKind::SharedMemoryFull.
void require_shared_memory(std::size_t bytes, const std::string& what);

// Makes the pages of a writable mapping present and writable, so that neither a copy engine nor a reader
// waits for a page fault. Contents stay as they are. `pages` starts and ends on page boundaries. Thread: any;
// several threads may work on disjoint parts of one mapping. Blocks: about 0.3 s a GB and thread. Errors:
// SystemError when the kernel cannot supply the pages; SharedMemoryFull when it is the file system that has none.
void fault_in_pages(std::span<std::byte> pages);

// Whether fault_in_pages() fails where a touch would be a SIGBUS, so that it may also reserve. Once it must fall back
// on touching (kernels before 5.14, some sandboxes), it cannot.
bool faulting_in_can_fail();

// The same without MADV_POPULATE_WRITE, which kernels before 5.14 and some sandboxes lack: writes each page's
// first byte back.
void touch_pages(std::span<std::byte> pages) noexcept;

// The free bytes of a place, and the file that states them.
struct MemoryRoom {
    std::uint64_t free_bytes = 0;
    std::string source;
};

// The tightest memory limit above this process, over both cgroup versions: limit - usage + page cache of
// files, which the kernel drops before it refuses anyone. (Pages of /dev/shm are not among those: they are
// counted as anonymous memory.) Nothing when no limit is set or none can be read. The arguments are for
// tests, which bring a tree of their own.
std::optional<MemoryRoom> cgroup_memory_room(const std::string& cgroup_mount = "/sys/fs/cgroup",
                                             const std::string& membership_file = "/proc/self/cgroup");

// The free space in /dev/shm. Errors: SystemError if there is no such file system.
MemoryRoom shared_memory_room();

}  // namespace offramp
