#pragma once

#include <cstddef>
#include <span>

namespace offramp {

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

}  // namespace offramp
