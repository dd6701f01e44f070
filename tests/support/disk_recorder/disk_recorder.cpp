// Tests preload this into the real programs. It records what they do to files below a folder, in the order in which the
// kernel did it, so that tests can rebuild what a power cut may leave. It can also make one operation fail.
//   OFFRAMP_TEST_DISK_ROOT=FOLDER   absolute, without symbolic links
//   OFFRAMP_TEST_DISK_LOG=FILE      gets the records; outside FOLDER
//   OFFRAMP_TEST_DISK_FAIL=KIND:N:GLOB   the N-th write, flush, close or rename of a path below FOLDER that matches
//   fails
//                                   with EIO; FILE.matched has a byte for each that matched
// A call that it sees but cannot record ends the program. Writes inside libc, such as those of fwrite(), cannot be
// seen: tests compare the replayed files with the real ones.
#include <dlfcn.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <linux/falloc.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

namespace {

// tests/support/recorded_disk.py reads these.
enum class Kind : std::uint32_t {
    Create = 1,
    Write = 2,
    SetSize = 3,
    Punch = 4,
    Flush = 5,
    FlushFolder = 6,
    Link = 7,
    Rename = 8,
    Remove = 9,
    MakeFolder = 10,
    FlushAll = 11,
    Map = 12,
    FlushFailed = 13,
};

struct Record {
    std::uint32_t bytes = 0;  // with names and data
    Kind kind{};
    std::uint64_t file = 0, folder = 0, other_folder = 0;  // inode numbers; `other_folder`: of a rename's source
    std::uint64_t at = 0, length = 0;
    std::uint32_t name_bytes = 0, other_name_bytes = 0;
};
static_assert(sizeof(Record) == 56);

template <class Function>
Function* next(const char* name) {
    return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

// The next function of this name. `call` has the function's own name.
#define NEXT(call)                                              \
    (*[] {                                                      \
        static auto* const found = next<decltype(call)>(#call); \
        return found;                                           \
    }())

const char* root() {
    static const char* const folder = std::getenv("OFFRAMP_TEST_DISK_ROOT");
    return folder;
}

bool is_below(std::string_view path) {
    const std::string_view folder = root();
    return path.starts_with(folder) && (path.size() == folder.size() || path[folder.size()] == '/');
}

std::string path_of(int fd) {
    char link[40], path[PATH_MAX];
    std::snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    const ssize_t bytes = ::readlink(link, path, sizeof path);
    return bytes > 0 ? std::string(path, static_cast<std::size_t>(bytes)) : std::string();
}

int raw_open(const char* path, int flags) {
    return static_cast<int>(::syscall(SYS_openat, AT_FDCWD, path, flags | O_CLOEXEC, 0600));
}
void raw_close(int fd) { ::syscall(SYS_close, fd); }

// Keeps errno for the caller of an interposed function.
class KeptErrno {
  public:
    KeptErrno() : value_(errno) {}
    KeptErrno(const KeptErrno&) = delete;
    KeptErrno& operator=(const KeptErrno&) = delete;
    ~KeptErrno() { errno = value_; }

  private:
    int value_;
};

// Excludes the other recorded operations of all processes. Each lock has its own open file, as forks share those.
class Log {
  public:
    Log() {
        const KeptErrno kept;
        fd_ = raw_open(std::getenv("OFFRAMP_TEST_DISK_LOG"), O_WRONLY | O_CREAT | O_APPEND);
        if (fd_ < 0) std::abort();
        while (::flock(fd_, LOCK_EX) != 0) {
        }
    }
    Log(const Log&) = delete;
    Log& operator=(const Log&) = delete;
    ~Log() {
        const KeptErrno kept;
        ::flock(fd_, LOCK_UN);
        raw_close(fd_);
    }

    void add(Record record, std::string_view name = {}, std::string_view other_name = {}, const void* data = nullptr,
             std::size_t data_bytes = 0) {
        const KeptErrno kept;
        record.name_bytes = static_cast<std::uint32_t>(name.size());
        record.other_name_bytes = static_cast<std::uint32_t>(other_name.size());
        record.bytes = static_cast<std::uint32_t>(sizeof record + name.size() + other_name.size() + data_bytes);
        const iovec parts[] = {{&record, sizeof record},
                               {const_cast<char*>(name.data()), name.size()},
                               {const_cast<char*>(other_name.data()), other_name.size()},
                               {const_cast<void*>(data), data_bytes}};
        if (::syscall(SYS_writev, fd_, parts, 4) != static_cast<long>(record.bytes)) std::abort();
    }

    // Whether the operation is the one to fail.
    bool fails(std::string_view kind, const std::string& path) {
        static const char* const order = std::getenv("OFFRAMP_TEST_DISK_FAIL");
        if (order == nullptr) return false;
        const std::string_view text = order;
        const std::size_t first = text.find(':'), second = text.find(':', first + 1);
        if (second == std::string_view::npos) std::abort();
        if (text.substr(0, first) != kind) return false;
        const std::string relative = path.substr(std::min(path.size(), std::strlen(root()) + 1));
        if (::fnmatch(order + second + 1, relative.c_str(), 0) != 0) return false;
        const int counter = raw_open((std::string(std::getenv("OFFRAMP_TEST_DISK_LOG")) + ".matched").c_str(),
                                     O_WRONLY | O_CREAT | O_APPEND);
        struct stat status {};
        if (counter < 0 || ::syscall(SYS_write, counter, ".", 1) != 1 || ::fstat(counter, &status) != 0) std::abort();
        raw_close(counter);
        if (status.st_size != std::strtol(order + first + 1, nullptr, 10)) return false;
        errno = EIO;
        return true;
    }

  private:
    int fd_;
};

// An open file below the root.
class OpenFile {
  public:
    explicit OpenFile(int fd) {
        if (root() == nullptr) return;
        const KeptErrno kept;
        if (::fstat(fd, &status_) != 0 || !(S_ISREG(status_.st_mode) || S_ISDIR(status_.st_mode))) return;
        path_ = path_of(fd);
        is_recorded_ = is_below(path_);
    }
    explicit operator bool() const { return is_recorded_; }
    bool is_folder() const { return S_ISDIR(status_.st_mode); }
    std::uint64_t inode() const { return status_.st_ino; }
    const std::string& path() const { return path_; }

    static std::uint64_t size(int fd) {
        struct stat status {};
        return ::fstat(fd, &status) == 0 ? static_cast<std::uint64_t>(status.st_size) : 0;
    }

    // Where the next write() goes.
    static std::uint64_t place(int fd) {
        const KeptErrno kept;
        if ((::fcntl(fd, F_GETFL) & O_APPEND) != 0) return size(fd);
        return static_cast<std::uint64_t>(std::max<off_t>(::lseek(fd, 0, SEEK_CUR), 0));
    }

  private:
    struct stat status_ {};
    std::string path_;
    bool is_recorded_ = false;
};

// A name below the root, in a folder that exists.
class Name {
  public:
    Name(int at, const char* path) {
        if (root() == nullptr || path == nullptr) return;
        const KeptErrno kept;
        std::string whole = path;
        while (whole.size() > 1 && whole.back() == '/') whole.pop_back();
        const std::size_t slash = whole.rfind('/');
        name_ = slash == std::string::npos ? whole : whole.substr(slash + 1);
        const std::string folder = slash == std::string::npos ? "." : slash == 0 ? "/" : whole.substr(0, slash);
        fd_ = static_cast<int>(::syscall(SYS_openat, at, folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC, 0));
        struct stat status {};
        if (fd_ < 0 || ::fstat(fd_, &status) != 0) return;
        folder_inode_ = status.st_ino;
        folder_path_ = path_of(fd_);
        is_recorded_ = is_below(folder_path_);
    }
    Name(const Name&) = delete;
    Name& operator=(const Name&) = delete;
    ~Name() {
        const KeptErrno kept;
        if (fd_ >= 0) raw_close(fd_);
    }
    explicit operator bool() const { return is_recorded_; }
    std::uint64_t folder() const { return folder_inode_; }
    const std::string& name() const { return name_; }
    std::string path() const { return folder_path_ + "/" + name_; }

    // 0 without a file of this name
    std::uint64_t inode() const {
        const KeptErrno kept;
        struct stat status {};
        return ::fstatat(fd_, name_.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0 ? status.st_ino : 0;
    }

  private:
    int fd_ = -1;
    std::string name_, folder_path_;
    std::uint64_t folder_inode_ = 0;
    bool is_recorded_ = false;
};

[[noreturn]] void refuse(const char* call, const std::string& path) {
    std::fprintf(stderr, "the disk recorder cannot record %s() of %s\n", call, path.c_str());
    std::abort();
}
void require_elsewhere(const char* call, int at, const char* path) {
    if (const Name name(at, path); name) refuse(call, name.path());
}
void require_elsewhere(const char* call, int fd) {
    if (const OpenFile file(fd); file) refuse(call, file.path());
}

bool is_open(int fd) { return fd >= 0; }
bool is_open(const FILE* file) { return file != nullptr; }

template <class Call>
auto opened(int at, const char* path, bool creates, bool truncates, const Call& call) {
    if (!creates && !truncates) return call();
    const Name name(at, path);
    if (!name) return call();
    Log log;
    const std::uint64_t before = name.inode();
    const auto result = call();
    const std::uint64_t after = name.inode();
    if (before == 0 && after != 0)
        log.add({.kind = Kind::Create, .file = after, .folder = name.folder()}, name.name());
    else if (truncates && is_open(result))
        log.add({.kind = Kind::SetSize, .file = after});
    return result;
}

template <class Call>
ssize_t written(int fd, const iovec* parts, int count, off_t at, const Call& call) {
    const OpenFile file(fd);
    if (!file || file.is_folder()) return call();
    Log log;
    if (log.fails("write", file.path())) return -1;
    const std::uint64_t place = at >= 0 ? static_cast<std::uint64_t>(at) : OpenFile::place(fd);
    const ssize_t result = call();
    if (result <= 0) return result;
    std::string data;
    for (int i = 0; i < count; ++i) data.append(static_cast<const char*>(parts[i].iov_base), parts[i].iov_len);
    log.add({.kind = Kind::Write, .file = file.inode(), .at = place, .length = static_cast<std::uint64_t>(result)}, {},
            {}, data.data(), static_cast<std::size_t>(result));
    return result;
}

// Bytes that the kernel copied.
template <class Call>
ssize_t copied(int to, const off_t* at, const Call& call) {
    const OpenFile file(to);
    if (!file) return call();
    Log log;
    const std::uint64_t place = at != nullptr ? static_cast<std::uint64_t>(*at) : OpenFile::place(to);
    const ssize_t result = call();
    if (result <= 0) return result;
    const KeptErrno kept;
    std::vector<char> data(static_cast<std::size_t>(result));
    const int again = raw_open(("/proc/self/fd/" + std::to_string(to)).c_str(), O_RDONLY);
    if (again < 0 || ::pread(again, data.data(), data.size(), static_cast<off_t>(place)) != result) std::abort();
    raw_close(again);
    log.add({.kind = Kind::Write, .file = file.inode(), .at = place, .length = data.size()}, {}, {}, data.data(),
            data.size());
    return result;
}

template <class Call>
int resized(int fd, const Call& call) {
    const OpenFile file(fd);
    if (!file) return call();
    Log log;
    const std::uint64_t before = OpenFile::size(fd);
    const int result = call();
    const KeptErrno kept;
    if (const std::uint64_t after = OpenFile::size(fd); after != before)
        log.add({.kind = Kind::SetSize, .file = file.inode(), .length = after});
    return result;
}

template <class Call>
int flushed(int fd, const Call& call) {
    const OpenFile file(fd);
    if (!file) return call();
    Log log;
    const int result = log.fails("flush", file.path()) ? -1 : call();
    const Kind flush = file.is_folder() ? Kind::FlushFolder : Kind::Flush;
    log.add({.kind = result == 0 ? flush : Kind::FlushFailed, .file = file.inode()});
    return result;
}

template <class Call>
int renamed(int from_at, const char* from_path, int to_at, const char* to_path, const Call& call) {
    const Name from(from_at, from_path), to(to_at, to_path);
    if (!from || !to) return call();
    Log log;
    if (log.fails("rename", to.path())) return -1;
    const std::uint64_t file = from.inode();
    const int result = call();
    if (result == 0)
        log.add({.kind = Kind::Rename, .file = file, .folder = to.folder(), .other_folder = from.folder()}, to.name(),
                from.name());
    return result;
}

template <class Call>
int linked(int to_at, const char* to_path, const Call& call) {
    const Name to(to_at, to_path);
    if (!to) return call();
    Log log;
    if (log.fails("rename", to.path())) return -1;
    const int result = call();
    if (result == 0) log.add({.kind = Kind::Link, .file = to.inode(), .folder = to.folder()}, to.name());
    return result;
}

template <class Call>
int removed(int at, const char* path, const Call& call) {
    const Name name(at, path);
    if (!name) return call();
    Log log;
    const std::uint64_t file = name.inode();
    const int result = call();
    if (result == 0) log.add({.kind = Kind::Remove, .file = file, .folder = name.folder()}, name.name());
    return result;
}

template <class Call>
int made_folder(int at, const char* path, const Call& call) {
    const Name name(at, path);
    if (!name) return call();
    Log log;
    const int result = call();
    if (result == 0) log.add({.kind = Kind::MakeFolder, .file = name.inode(), .folder = name.folder()}, name.name());
    return result;
}

mode_t mode_of(int flags, va_list arguments) {
    return (flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE ? va_arg(arguments, mode_t) : 0;
}

}  // namespace

#pragma GCC visibility push(default)
#pragma GCC diagnostic ignored "-Wnonnull-compare"
extern "C" {

#define OPEN(call)                                                                    \
    int call(const char* path, int flags, ...) {                                      \
        va_list arguments;                                                            \
        va_start(arguments, flags);                                                   \
        const mode_t mode = mode_of(flags, arguments);                                \
        va_end(arguments);                                                            \
        return opened(AT_FDCWD, path, (flags & O_CREAT) != 0, (flags & O_TRUNC) != 0, \
                      [&] { return NEXT(call)(path, flags, mode); });                 \
    }
#define OPENAT(call)                                                            \
    int call(int at, const char* path, int flags, ...) {                        \
        va_list arguments;                                                      \
        va_start(arguments, flags);                                             \
        const mode_t mode = mode_of(flags, arguments);                          \
        va_end(arguments);                                                      \
        return opened(at, path, (flags & O_CREAT) != 0, (flags & O_TRUNC) != 0, \
                      [&] { return NEXT(call)(at, path, flags, mode); });       \
    }
OPEN(open)
OPEN(open64)
OPENAT(openat)
OPENAT(openat64)

int creat(const char* path, mode_t mode) {
    return opened(AT_FDCWD, path, true, true, [&] { return NEXT(creat)(path, mode); });
}
int creat64(const char* path, mode_t mode) {
    return opened(AT_FDCWD, path, true, true, [&] { return NEXT(creat64)(path, mode); });
}
FILE* fopen(const char* path, const char* mode) {
    return opened(AT_FDCWD, path, *mode != 'r', *mode == 'w', [&] { return NEXT(fopen)(path, mode); });
}
FILE* fopen64(const char* path, const char* mode) {
    return opened(AT_FDCWD, path, *mode != 'r', *mode == 'w', [&] { return NEXT(fopen64)(path, mode); });
}

ssize_t write(int fd, const void* data, size_t bytes) {
    const iovec part{const_cast<void*>(data), bytes};
    return written(fd, &part, 1, -1, [&] { return NEXT(write)(fd, data, bytes); });
}
ssize_t writev(int fd, const iovec* parts, int count) {
    return written(fd, parts, count, -1, [&] { return NEXT(writev)(fd, parts, count); });
}
ssize_t pwrite(int fd, const void* data, size_t bytes, off_t at) {
    const iovec part{const_cast<void*>(data), bytes};
    return written(fd, &part, 1, at, [&] { return NEXT(pwrite)(fd, data, bytes, at); });
}
ssize_t pwrite64(int fd, const void* data, size_t bytes, off64_t at) {
    const iovec part{const_cast<void*>(data), bytes};
    return written(fd, &part, 1, at, [&] { return NEXT(pwrite64)(fd, data, bytes, at); });
}
ssize_t pwritev(int fd, const iovec* parts, int count, off_t at) {
    return written(fd, parts, count, at, [&] { return NEXT(pwritev)(fd, parts, count, at); });
}
ssize_t pwritev64(int fd, const iovec* parts, int count, off64_t at) {
    return written(fd, parts, count, at, [&] { return NEXT(pwritev64)(fd, parts, count, at); });
}
ssize_t sendfile(int to, int from, off_t* at, size_t bytes) noexcept {
    return copied(to, nullptr, [&] { return NEXT(sendfile)(to, from, at, bytes); });
}
ssize_t sendfile64(int to, int from, off64_t* at, size_t bytes) noexcept {
    return copied(to, nullptr, [&] { return NEXT(sendfile64)(to, from, at, bytes); });
}
ssize_t copy_file_range(int from, off64_t* from_at, int to, off64_t* to_at, size_t bytes, unsigned flags) {
    return copied(to, to_at, [&] { return NEXT(copy_file_range)(from, from_at, to, to_at, bytes, flags); });
}

int ftruncate(int fd, off_t bytes) noexcept {
    return resized(fd, [&] { return NEXT(ftruncate)(fd, bytes); });
}
int ftruncate64(int fd, off64_t bytes) noexcept {
    return resized(fd, [&] { return NEXT(ftruncate64)(fd, bytes); });
}
int posix_fallocate(int fd, off_t at, off_t bytes) {
    return resized(fd, [&] { return NEXT(posix_fallocate)(fd, at, bytes); });
}
int posix_fallocate64(int fd, off64_t at, off64_t bytes) {
    return resized(fd, [&] { return NEXT(posix_fallocate64)(fd, at, bytes); });
}
int fallocate(int fd, int mode, off_t at, off_t bytes) {
    if ((mode & FALLOC_FL_PUNCH_HOLE) == 0) return resized(fd, [&] { return NEXT(fallocate)(fd, mode, at, bytes); });
    const OpenFile file(fd);
    if (!file) return NEXT(fallocate)(fd, mode, at, bytes);
    Log log;
    const int result = NEXT(fallocate)(fd, mode, at, bytes);
    if (result == 0)
        log.add({.kind = Kind::Punch,
                 .file = file.inode(),
                 .at = static_cast<std::uint64_t>(at),
                 .length = static_cast<std::uint64_t>(bytes)});
    return result;
}
int fallocate64(int fd, int mode, off64_t at, off64_t bytes) { return fallocate(fd, mode, at, bytes); }

int fsync(int fd) {
    return flushed(fd, [&] { return NEXT(fsync)(fd); });
}
int fdatasync(int fd) {
    return flushed(fd, [&] { return NEXT(fdatasync)(fd); });
}
int syncfs(int fd) noexcept {
    if (root() == nullptr) return NEXT(syncfs)(fd);
    Log log;
    const int result = NEXT(syncfs)(fd);
    if (result == 0) log.add({.kind = Kind::FlushAll});
    return result;
}

int rename(const char* from, const char* to) noexcept {
    return renamed(AT_FDCWD, from, AT_FDCWD, to, [&] { return NEXT(rename)(from, to); });
}
int renameat(int from_at, const char* from, int to_at, const char* to) noexcept {
    return renamed(from_at, from, to_at, to, [&] { return NEXT(renameat)(from_at, from, to_at, to); });
}
int renameat2(int from_at, const char* from, int to_at, const char* to, unsigned flags) noexcept {
    if ((flags & RENAME_EXCHANGE) != 0) require_elsewhere("renameat2", to_at, to);
    return renamed(from_at, from, to_at, to, [&] { return NEXT(renameat2)(from_at, from, to_at, to, flags); });
}
int link(const char* from, const char* to) noexcept {
    return linked(AT_FDCWD, to, [&] { return NEXT(link)(from, to); });
}
int linkat(int from_at, const char* from, int to_at, const char* to, int flags) noexcept {
    return linked(to_at, to, [&] { return NEXT(linkat)(from_at, from, to_at, to, flags); });
}
int unlink(const char* path) noexcept {
    return removed(AT_FDCWD, path, [&] { return NEXT(unlink)(path); });
}
int unlinkat(int at, const char* path, int flags) noexcept {
    return removed(at, path, [&] { return NEXT(unlinkat)(at, path, flags); });
}
int rmdir(const char* path) noexcept {
    return removed(AT_FDCWD, path, [&] { return NEXT(rmdir)(path); });
}
int remove(const char* path) noexcept {
    return removed(AT_FDCWD, path, [&] { return NEXT(remove)(path); });
}
int mkdir(const char* path, mode_t mode) noexcept {
    return made_folder(AT_FDCWD, path, [&] { return NEXT(mkdir)(path, mode); });
}
int mkdirat(int at, const char* path, mode_t mode) noexcept {
    return made_folder(at, path, [&] { return NEXT(mkdirat)(at, path, mode); });
}

void* mmap(void* address, size_t bytes, int access, int flags, int fd, off_t at) noexcept {
    // Called before dlsym() works.
    void* const result = reinterpret_cast<void*>(::syscall(SYS_mmap, address, bytes, access, flags, fd, at));
    if (result == MAP_FAILED || fd < 0 || (flags & MAP_SHARED) == 0 || (access & PROT_WRITE) == 0) return result;
    if (const OpenFile file(fd); file) Log().add({.kind = Kind::Map, .file = file.inode()});
    return result;
}
void* mmap64(void* address, size_t bytes, int access, int flags, int fd, off64_t at) noexcept {
    return mmap(address, bytes, access, flags, fd, at);
}

int truncate(const char* path, off_t bytes) noexcept {
    require_elsewhere("truncate", AT_FDCWD, path);
    return NEXT(truncate)(path, bytes);
}
int truncate64(const char* path, off64_t bytes) noexcept {
    require_elsewhere("truncate", AT_FDCWD, path);
    return NEXT(truncate64)(path, bytes);
}
int symlink(const char* target, const char* path) noexcept {
    require_elsewhere("symlink", AT_FDCWD, path);
    return NEXT(symlink)(target, path);
}
int symlinkat(const char* target, int at, const char* path) noexcept {
    require_elsewhere("symlinkat", at, path);
    return NEXT(symlinkat)(target, at, path);
}
int mkstemp(char* path) {
    require_elsewhere("mkstemp", AT_FDCWD, path);
    return NEXT(mkstemp)(path);
}
int mkstemp64(char* path) {
    require_elsewhere("mkstemp", AT_FDCWD, path);
    return NEXT(mkstemp64)(path);
}
int mkostemp(char* path, int flags) {
    require_elsewhere("mkostemp", AT_FDCWD, path);
    return NEXT(mkostemp)(path, flags);
}
char* mkdtemp(char* path) noexcept {
    require_elsewhere("mkdtemp", AT_FDCWD, path);
    return NEXT(mkdtemp)(path);
}
ssize_t pwritev2(int fd, const iovec* parts, int count, off_t at, int flags) {
    require_elsewhere("pwritev2", fd);
    return NEXT(pwritev2)(fd, parts, count, at, flags);
}
ssize_t splice(int from, off64_t* from_at, int to, off64_t* to_at, size_t bytes, unsigned flags) {
    require_elsewhere("splice", to);
    return NEXT(splice)(from, from_at, to, to_at, bytes, flags);
}

int close(int fd) {
    static const bool may_fail = std::getenv("OFFRAMP_TEST_DISK_FAIL") != nullptr;
    if (!may_fail) return static_cast<int>(::syscall(SYS_close, fd));
    const OpenFile file(fd);
    const int result = static_cast<int>(::syscall(SYS_close, fd));
    if (result != 0 || !file || file.is_folder()) return result;
    return Log().fails("close", file.path()) ? -1 : result;
}

}  // extern "C"
#pragma GCC visibility pop
