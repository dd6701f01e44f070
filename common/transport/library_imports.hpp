#pragma once

#include <cstddef>
#include <span>

namespace offramp {

// A function that a shared library imports by name, and the one that it calls instead.
struct RedirectedImport {
    const char* name;
    void* replacement;
};

// Redirects imports of the loaded library that contains `function`: its calls of these functions go to the
// replacements from now on. Calls from any other library or program are unchanged. The replacements must stay loaded.
//
// Returns how many of `imports` the library has: one that it does not import is passed over. Thread: any; call it
// before the library is used. Blocks: never. Errors: SystemError where the library's table cannot be written.
std::size_t redirect_imports(const void* function, std::span<const RedirectedImport> imports);

}  // namespace offramp
