#include "common/base/mapped_file.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>

#include "common/base/error.hpp"
#include "common/base/unique_fd.hpp"

namespace offramp {

MappedFile::MappedFile(const std::string& path) {
    const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
    struct stat status {};
    if (!file || ::fstat(file.get(), &status) != 0) throw SystemError("opening " + path, errno);
    if (status.st_size == 0) return;
    const auto bytes = static_cast<std::size_t>(status.st_size);
    void* mapped = ::mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE, file.get(), 0);
    if (mapped == MAP_FAILED) throw SystemError("mapping " + path + ", " + std::to_string(bytes) + " bytes", errno);
    bytes_ = {static_cast<const std::byte*>(mapped), bytes};
}

MappedFile::~MappedFile() {
    if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

}  // namespace offramp
