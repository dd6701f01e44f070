#pragma once

#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <span>
#include <string>

#include "common/base/error.hpp"

namespace offramp {

// A folder for a reader that needs a file; removed at the end. (A process that dies of a finding leaves it in the
// temporary folder.)
class ScratchFolder {
  public:
    ScratchFolder() {
        std::string pattern = (std::filesystem::temp_directory_path() / "offramp-fuzz-XXXXXX").string();
        expect(::mkdtemp(pattern.data()) != nullptr, "a temporary folder can be made");
        path_ = pattern;
    }
    ScratchFolder(const ScratchFolder&) = delete;
    ScratchFolder& operator=(const ScratchFolder&) = delete;
    ~ScratchFolder() {
        std::error_code ignored;
        std::filesystem::remove_all(path_, ignored);
    }

    const std::string& path() const { return path_; }
    // The path of a file NAME that holds exactly these bytes.
    std::string write(const std::string& name, std::span<const std::byte> bytes) const {
        const std::string file = path_ + "/" + name;
        std::ofstream(file, std::ios::binary | std::ios::trunc)
            .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
        return file;
    }

  private:
    std::string path_;
};

}  // namespace offramp
