#pragma once

#include <string>
#include <vector>

namespace offramp {

// A shared library of the system's, opened when it is first needed: a consumer that does not need it starts without it,
// on machines that do not have it. Stays open until the process ends. Errors: ConfigError where it is not there, or has
// no such call.
class OpenedLibrary {
  public:
    // The first of `names` that can be opened; `wanted_by`: the setting, as users write it; `fix`: how to get it.
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
