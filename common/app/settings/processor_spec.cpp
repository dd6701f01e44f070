#include "common/app/settings/processor_spec.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "common/base/error.hpp"

namespace offramp {
namespace {

constexpr std::array<std::pair<std::string_view, ProcessorSpec::Kind>, 3> kKinds{
    {{"so:", ProcessorSpec::Kind::SharedObject},
     {"python:", ProcessorSpec::Kind::Python},
     {"exec:", ProcessorSpec::Kind::Executable}}};

std::string_view file_name(std::string_view path) { return path.substr(path.rfind('/') + 1); }

std::string folder_of(ProcessorSpec::Kind kind, std::string_view what) {
    std::string folder(kind == ProcessorSpec::Kind::Executable ? file_name(what.substr(0, what.find(' ')))
                                                               : file_name(what));
    std::ranges::replace(folder, ':', '-');
    return folder;
}

}  // namespace

std::optional<ProcessorSpec> ProcessorSpec::of(std::string_view name) {
    ProcessorSpec spec;
    const auto* const kind = std::ranges::find_if(kKinds, [&](const auto& one) { return name.starts_with(one.first); });
    if (kind != kKinds.end()) {
        spec.kind = kind->second;
        spec.what = name.substr(kind->first.size());
    } else if (name.find(".py:") != std::string_view::npos || name.ends_with(".py")) {
        spec.kind = Kind::Python;
        spec.what = name;
    } else {
        return std::nullopt;
    }
    if (spec.what.empty())
        throw ConfigError("--processor " + std::string(name) + " has nothing after the colon",
                          "Give a path or a command there");
    const auto colon = spec.what.rfind(':');
    if (spec.kind == Kind::Python && (colon == std::string::npos || colon == 0 || colon + 1 == spec.what.size()))
        throw ConfigError("--processor " + std::string(name) + " names no function",
                          "Give FILE.py:FUNCTION, or python:PACKAGE.MODULE:FUNCTION");
    spec.folder = folder_of(spec.kind, spec.what);
    if (spec.folder.empty() || spec.folder.front() == '.')
        throw ConfigError("--processor " + std::string(name) + " names no file",
                          "Give a file name after the last slash");
    return spec;
}

std::string results_folder(const std::string& output, std::string_view name, std::size_t processors) {
    if (output.empty() || processors < 2) return output;
    const auto spec = ProcessorSpec::of(name);
    return output + "/" + (spec ? spec->folder : std::string(name));
}

}  // namespace offramp
