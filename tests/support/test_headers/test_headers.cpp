// Empty: only the header that CMakeLists.txt precompiles matters.
