#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

namespace offramp {

// A region's access for others, and the time of its allocation.
struct RegionOptions {
    bool readable_by_group = false;  // mode 0640 instead of 0600
    bool writable_by_group = false;  // mode 0660: for heartbeat records of another user's consumers
    // WhenPopulated: create() only names and maps the object, and populate() allocates the memory. Several threads can
    // call populate() in parallel, while fallocate uses one. Populate every byte before you touch any. On kernels whose
    // populate() cannot fail (before 5.14), this means Now.
    enum class Reserve { Now, WhenPopulated };
    Reserve reserve = Reserve::Now;
};

// Owns one named POSIX shared-memory object and a writable mapping of it. Only its creator writes to it, or its
// successor once the creator is dead. Consumers also write to the heartbeats object, through SharedRegionView.
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
    // Takes over a dead creator's object unchanged. Does not own its name, so that it can be taken over again after a
    // failure. Sets the size of an object that has none yet, for populate() to fill. Errors: ProtocolError if its size
    // is not `bytes`, NotPermitted for another user's object, NoSuchRun if it does not exist.
    static SharedRegion adopt(const std::string& name, std::size_t bytes);

    SharedRegion(SharedRegion&&) noexcept;
    SharedRegion& operator=(SharedRegion&&) noexcept;
    ~SharedRegion();

    const std::string& name() const;
    std::span<std::byte> bytes() const;
    // Faults in the pages of [offset, offset + length) for writing, widened to whole pages.
    // Errors: SystemError, with ErrorKind::SharedMemoryFull if there is no room.
    void populate(std::size_t offset, std::size_t length);
    // Makes the destructor keep the name, for other processes.
    void keep_name();
    // Removes the name now, if it still refers to this object; the mapping stays.
    void unlink() noexcept;

  private:
    struct State;
    explicit SharedRegion(std::unique_ptr<State> state);
    std::unique_ptr<State> state_;
};

// Maps an existing object: read-only, writable (a consumer's heartbeat record), or copy-on-write. Never creates or
// removes an object. The mapping is MADV_DONTDUMP and MADV_DONTFORK: a forked child must not continue to read once its
// parent's death was detected.
class SharedRegionView {
  public:
    enum class Access { ReadOnly, ReadWrite, CopyOnWrite };

    // `least_bytes`: the minimum size. Errors: ProtocolError for a smaller object; SystemError, with
    // ErrorKind::NoSuchRun if the object does not exist (the run has ended, or never existed), NotPermitted if it
    // belongs to another user.
    static SharedRegionView attach(const std::string& name, Access access, std::size_t least_bytes);

    SharedRegionView(SharedRegionView&&) noexcept;
    SharedRegionView& operator=(SharedRegionView&&) noexcept;
    ~SharedRegionView();

    std::span<const std::byte> bytes() const;
    // Maps every page for reading now (MADV_POPULATE_READ), so that later reads do not fault. Does nothing if the
    // kernel cannot.
    void populate() const;
    // Broken contract unless attached ReadWrite or CopyOnWrite.
    std::span<std::byte> writable_bytes() const;
    // CopyOnWrite: drops the private pages, so that the object's own bytes are visible again. Whole pages:
    // `offset` on a page boundary, `length` is rounded up.
    void drop_private_pages(std::size_t offset, std::size_t length);

  private:
    struct State;
    explicit SharedRegionView(std::unique_ptr<State> state);
    std::unique_ptr<State> state_;
};

// Throws the error of SharedRegion::create() if `bytes` do not fit into /dev/shm or the cgroup's memory limit now. Use
// it to check a whole pool before creating its first object.
// ErrorKind::SharedMemoryFull.
void require_shared_memory(std::size_t bytes, const std::string& what);

// Faults in the pages of a writable mapping for writing, so that neither a copy engine nor a reader waits for a page
// fault. Keeps the contents. `pages` must start and end on page boundaries. Thread: any; several threads may work on
// disjoint parts of one mapping. Blocks: about 0.3 s per GB and thread. Errors: SystemError if the kernel cannot supply
// the pages; SharedMemoryFull if the file system is full.
void fault_in_pages(std::span<std::byte> pages);

// True if fault_in_pages() fails instead of raising SIGBUS, so that it can also reserve memory. False once it must fall
// back to touching pages (kernels before 5.14, some sandboxes).
bool faulting_in_can_fail();

// The same without MADV_POPULATE_WRITE, which kernels before 5.14 and some sandboxes lack: writes each page's
// first byte back.
void touch_pages(std::span<std::byte> pages) noexcept;

// Free bytes, and the file that states them.
struct MemoryRoom {
    std::uint64_t free_bytes = 0;
    std::string source;
};

// The tightest cgroup memory limit of this process, in both cgroup versions: limit - usage + page cache of files, which
// the kernel drops before an allocation fails. (Pages of /dev/shm count as anonymous memory, not as page cache.)
// Returns nothing if no limit is set or readable. The arguments are for tests, which use their own tree.
std::optional<MemoryRoom> cgroup_memory_room(const std::string& cgroup_mount = "/sys/fs/cgroup",
                                             const std::string& membership_file = "/proc/self/cgroup");

// The free space in /dev/shm. Errors: SystemError if there is no such file system.
MemoryRoom shared_memory_room();

}  // namespace offramp
