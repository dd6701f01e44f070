# cmake -DOUTPUT=FILE.cpp -DROOT=FOLDER -DSOURCES=FILE|FILE... -P write_catalogue.cmake: writes the TOML files as the table of CatalogueSource.
string(REPLACE "|" ";" sources "${SOURCES}")
file(WRITE ${OUTPUT} "// Written by CMake from the TOML files beside processors and other parts. Do not edit.
#include \"common/app/settings/declarations.hpp\"

namespace offramp {
namespace {
const CatalogueSource kSources[] = {
")
foreach(source ${sources})
    file(READ ${source} text)
    cmake_path(RELATIVE_PATH source BASE_DIRECTORY ${ROOT} OUTPUT_VARIABLE name)
    set(plug_in "")
    if(name MATCHES "/plugins/([a-z0-9_]+)\\.toml$")
        string(REPLACE "_" "-" plug_in ${CMAKE_MATCH_1})
    endif()
    file(APPEND ${OUTPUT} "    {\"${name}\", \"${plug_in}\", R\"settings(${text})settings\"},\n")
endforeach()
file(APPEND ${OUTPUT} "};
}  // namespace

std::span<const CatalogueSource> CatalogueSource::all() { return kSources; }
}  // namespace offramp
")
