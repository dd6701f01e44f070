# cmake -DOUTPUT=FILE.cpp -DROOT=FOLDER -DSOURCES=FILE|FILE... -P write_catalogue.cmake: takes the text R"settings(...)settings" out of each
# source that has one, and writes them as the table of CatalogueSource.
string(REPLACE "|" ";" sources "${SOURCES}")
set(begin_mark "R\"settings(")
set(end_mark ")settings\"")
file(WRITE ${OUTPUT} "// Written by CMake from the sources that declare settings. Do not edit.
#include \"common/settings/catalogue_source.hpp\"

namespace offramp {
namespace {
const CatalogueSource kSources[] = {
")
foreach(source ${sources})
    file(READ ${source} text)
    string(FIND "${text}" "${begin_mark}" begin)
    if(begin EQUAL -1)
        continue()
    endif()
    string(SUBSTRING "${text}" ${begin} -1 text)
    string(FIND "${text}" "${end_mark}" length)
    if(length EQUAL -1)
        message(FATAL_ERROR "${source}: the text that begins with ${begin_mark} does not end with ${end_mark}")
    endif()
    string(SUBSTRING "${text}" 0 ${length} text)
    cmake_path(RELATIVE_PATH source BASE_DIRECTORY ${ROOT} OUTPUT_VARIABLE name)
    set(plug_in "")
    if(name MATCHES "/plugins/([a-z0-9_]+)\\.cpp$")
        string(REPLACE "_" "-" plug_in ${CMAKE_MATCH_1})
    endif()
    file(APPEND ${OUTPUT} "    {\"${name}\", \"${plug_in}\", ${text}${end_mark}},\n")
endforeach()
file(APPEND ${OUTPUT} "};
}  // namespace

std::span<const CatalogueSource> CatalogueSource::all() { return kSources; }
}  // namespace offramp
")
