#pragma once

namespace offramp {

// Memory that this process frees stays with it, for what is allocated next: a program that does the same work for each
// batch takes no page fault for it but the first time. glibc would give large pieces back with each free() and have
// them filled with zeros by the kernel anew. The process keeps as much as it once needed at a time.
// Thread: any; before the work begins. Errors: none.
void keep_freed_memory() noexcept;

}  // namespace offramp
