#pragma once

#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <stdexcept>
#include <string>
#include <system_error>

namespace offramp::test {

// A folder that is removed with its contents. In memory, a database's many flushes cost no time.
class ScratchFolder {
  public:
    enum class On { Disk, Memory };
    explicit ScratchFolder(On place = On::Disk) {
        const bool in_memory = place == On::Memory && ::access("/dev/shm", W_OK) == 0;
        path_ = in_memory ? "/dev/shm/scratch-of-offramp-test-XXXXXX"
                          : (std::filesystem::temp_directory_path() / "offramp-test-XXXXXX").string();
        if (::mkdtemp(path_.data()) == nullptr) throw std::runtime_error("mkdtemp " + path_);
    }
    ScratchFolder(const ScratchFolder&) = delete;
    ScratchFolder& operator=(const ScratchFolder&) = delete;
    ~ScratchFolder() {
        std::error_code ignored;
        std::filesystem::permissions(path_, std::filesystem::perms::owner_all, ignored);
        std::filesystem::remove_all(path_, ignored);
    }
    const std::string& path() const { return path_; }

  private:
    std::string path_;
};

}  // namespace offramp::test
