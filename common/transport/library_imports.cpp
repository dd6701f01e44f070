#include "common/transport/library_imports.hpp"

#include <elf.h>
#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <string_view>
#include <vector>

#include "common/base/error.hpp"

namespace offramp {
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

// A loaded library's own tables, as the dynamic loader reads them.
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

    // Where the library keeps the address of the function that it imports under this name.
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

    // The pages that the loader wrote and then protected are opened for the one word.
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
    // glibc has added the base to addresses in place, other loaders have not.
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
