// Nothing: what counts is the header that CMakeLists.txt has precompiled.
