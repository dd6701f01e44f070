#include "consumer/hosts/shared_object.hpp"

#include <dlfcn.h>

#include <cstddef>
#include <filesystem>

#include "common/base/error.hpp"
#include "common/base/loader_error.hpp"

namespace offramp {
namespace {

constexpr const char* kEntry = "offramp_processor_v1";

}  // namespace

const offramp_processor& open_processor(const std::string& path) {
    const std::string named = "--processor so:" + path;
    if (!std::filesystem::exists(path)) throw ConfigError(named + ": there is no such file", "Give the object's path");
    // With a slash: never looked for in the system's folders.
    const std::string absolute = std::filesystem::absolute(path).string();
    void* const object = ::dlopen(absolute.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (object == nullptr)
        throw ConfigError(named + " cannot be loaded: " + last_loader_error(),
                          "Link it with all libraries that it needs, and build it for this machine");
    using Entry = const offramp_processor* (*)();
    const auto entry = reinterpret_cast<Entry>(::dlsym(object, kEntry));
    if (entry == nullptr)
        throw ConfigError(named + " exports no " + std::string(kEntry) + "()",
                          "Define it, extern \"C\" in C++: offramp_processor.h");
    const offramp_processor* const processor = entry();
    if (processor == nullptr || processor->size < offsetof(offramp_processor, destroy) + sizeof(processor->destroy) ||
        processor->create == nullptr || processor->process == nullptr)
        throw ConfigError(named + ": " + std::string(kEntry) + "() returns an incomplete offramp_processor",
                          "Set `size` to its sizeof, and `create` and `process`");
    return *processor;
}

}  // namespace offramp
