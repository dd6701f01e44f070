#pragma once

#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <string>

namespace offramp::support {

// Owns a new folder of mode 0700, short enough for sockets, and removes it with its contents.
class TemporaryFolder {
  public:
    TemporaryFolder() {
        char form[] = "/tmp/offramp-test-XXXXXX";
        if (::mkdtemp(form) == nullptr) throw std::runtime_error("mkdtemp failed");
        path_ = form;
    }
    TemporaryFolder(const TemporaryFolder&) = delete;
    TemporaryFolder& operator=(const TemporaryFolder&) = delete;
    ~TemporaryFolder() {
        std::error_code ignored;
        std::filesystem::remove_all(path_, ignored);
    }

    const std::string& path() const { return path_; }
    std::string file(const std::string& name) const { return path_ + "/" + name; }

  private:
    std::string path_;
};

// With the folders of a run directory.
class TemporaryRunFolder : public TemporaryFolder {
  public:
    TemporaryRunFolder() {
        for (const char* name : {"live", "logs"}) std::filesystem::create_directory(file(name));
    }
};

}  // namespace offramp::support
