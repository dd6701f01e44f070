#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace offramp {

// One reader of foreign bytes, fed with arbitrary bytes: it must refuse them with its own error or return consistent
// values. Anything else (a sanitizer's report, a broken contract, an exception that is not an Error) ends the process.
struct FuzzTarget {
    // Called repeatedly in one process; keeps no state between calls.
    std::function<void(std::span<const std::byte>)> feed;
    // Messages of the real encoders: the seeds of the corpus.
    std::vector<std::string> seeds;
};

// A row of the table that CMake writes from targets/*.cpp: "slab_header.cpp" gives {"slab-header", &make_slab_header}.
struct FuzzTargetEntry {
    std::string_view name;
    FuzzTarget (*make)();

    static std::span<const FuzzTargetEntry> all();
};

inline std::string_view as_text(std::span<const std::byte> bytes) {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}
inline std::string as_seed(std::span<const std::byte> bytes) { return std::string(as_text(bytes)); }

}  // namespace offramp
