#pragma once

#include <string>
#include <vector>

namespace offramp {

// A shared library of the system, opened on first use: a consumer that does not need it also starts on machines without
// it. The library stays open until the process ends. Errors: ConfigError if the library is missing or lacks a call.
class OpenedLibrary {
  public:
    // Opens the first of `names` that can be opened. `wanted_by`: the setting, as users write it; `fix`: how to get the
    // library.
    OpenedLibrary(const std::vector<std::string>& names, std::string wanted_by, std::string fix);

    template <class Call>
    void find(Call*& call, const char* name) const {
        call = reinterpret_cast<Call*>(symbol(name));
    }

  private:
    void* symbol(const char* name) const;

    void* handle_ = nullptr;
    std::string name_;
    std::string wanted_by_;
    std::string fix_;
};

}  // namespace offramp
