# Warnings, sanitizers, and offramp_library(): one static library a room, whose headers must compile alone.

# In pip's builds (SKBUILD) a warning of a newer compiler is no error.
add_library(offramp_warnings INTERFACE)
target_compile_options(offramp_warnings INTERFACE
    -Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor -Wold-style-cast -Wcast-align -Wunused -Woverloaded-virtual
    -Wconversion -Wdouble-promotion -Wimplicit-fallthrough -Wno-missing-field-initializers $<$<NOT:$<BOOL:${SKBUILD}>>:-Werror>)
target_include_directories(offramp_warnings INTERFACE ${CMAKE_SOURCE_DIR})

if(OFFRAMP_SANITIZER STREQUAL "address")
    add_compile_options(-fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer)
    add_link_options(-fsanitize=address,undefined)
elseif(OFFRAMP_SANITIZER STREQUAL "thread")
    add_compile_options(-fsanitize=thread -fno-omit-frame-pointer)
    add_link_options(-fsanitize=thread)
elseif(NOT OFFRAMP_SANITIZER STREQUAL "")
    message(FATAL_ERROR "OFFRAMP_SANITIZER is '${OFFRAMP_SANITIZER}'; known: address, thread, or empty")
endif()
# xxHash forces the inlining of functions that GCC does not inline with -Og, which is then an error.
if(OFFRAMP_SANITIZER)
    add_compile_definitions(XXH_NO_INLINE_HINTS=1)
endif()

# All presets but `dev` compile a room's sources together, since headers take most of the time. GCC then frees no memory below 1 GiB: its
# collector takes a tenth of the time or more (a benchmark's file: 27.5 s and 0.8 GB with it, 22.0 s and 1.2 GB without).
if(CMAKE_UNITY_BUILD AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    add_compile_options(--param=ggc-min-heapsize=1048576)
endif()

# Messages name a source file by its path in the tree, whatever the folder of the tree: packages are reproducible. ccache makes paths relative.
set(offramp_reproducible -fmacro-prefix-map=${CMAKE_SOURCE_DIR}/= -fmacro-prefix-map=../../=)

# offramp_library(NAME SOURCES ... HEADERS ... [PUBLIC targets ...] [PRIVATE targets ...])
function(offramp_library name)
    cmake_parse_arguments(ARG "" "" "SOURCES;HEADERS;PUBLIC;PRIVATE" ${ARGN})
    add_library(${name} STATIC ${ARG_SOURCES})
    # A header that its own source includes before anything else has been compiled alone there, if the source is: 0.8 s a header. Not where the source
    # sees what the header must not need.
    set(shown "")
    if(NOT "offramp::cudart" IN_LIST ARG_PRIVATE)
        foreach(header ${ARG_HEADERS})
            cmake_path(REPLACE_EXTENSION header LAST_ONLY cpp OUTPUT_VARIABLE source)
            get_source_file_property(apart ${source} SKIP_UNITY_BUILD_INCLUSION)
            if(source IN_LIST ARG_SOURCES AND (apart OR NOT CMAKE_UNITY_BUILD))
                file(STRINGS ${source} first REGEX "^#include" LIMIT_COUNT 1)
                cmake_path(ABSOLUTE_PATH header BASE_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR} OUTPUT_VARIABLE path)
                cmake_path(RELATIVE_PATH path BASE_DIRECTORY ${CMAKE_SOURCE_DIR})
                if(first STREQUAL "#include \"${path}\"")
                    list(APPEND shown ${header})
                endif()
            endif()
        endforeach()
        list(REMOVE_ITEM ARG_HEADERS ${shown})
    endif()
    target_sources(${name} PUBLIC FILE_SET HEADERS BASE_DIRS ${CMAKE_SOURCE_DIR} FILES ${ARG_HEADERS}
                   FILE_SET shown TYPE HEADERS BASE_DIRS ${CMAKE_SOURCE_DIR} FILES ${shown})
    target_link_libraries(${name} PUBLIC ${ARG_PUBLIC} PRIVATE offramp_warnings ${ARG_PRIVATE})
    target_compile_options(${name} PRIVATE ${offramp_reproducible})
    target_include_directories(${name} PUBLIC ${CMAKE_SOURCE_DIR})
    set_target_properties(${name} PROPERTIES VERIFY_INTERFACE_HEADER_SETS ON INTERFACE_HEADER_SETS_TO_VERIFY HEADERS)
    set_property(GLOBAL APPEND PROPERTY OFFRAMP_LIBRARIES ${name})
endfunction()

# offramp_private_headers(NAME HEADERS ... [LINKS targets ...]): headers that no other folder includes, which must compile alone too.
function(offramp_private_headers name)
    cmake_parse_arguments(ARG "" "" "HEADERS;LINKS" ${ARGN})
    add_library(${name} INTERFACE)
    target_sources(${name} INTERFACE FILE_SET HEADERS BASE_DIRS ${CMAKE_SOURCE_DIR} FILES ${ARG_HEADERS})
    target_link_libraries(${name} INTERFACE ${ARG_LINKS})
    target_include_directories(${name} INTERFACE ${CMAKE_SOURCE_DIR})
    set_target_properties(${name} PROPERTIES VERIFY_INTERFACE_HEADER_SETS ON)
    set_property(GLOBAL APPEND PROPERTY OFFRAMP_LIBRARIES ${name})
endfunction()

# offramp_settings_files(FILES...): TOML files with settings and results (common/app/settings/declared_setting.hpp); --help has them in this order.
function(offramp_settings_files)
    foreach(source ${ARGN})
        cmake_path(ABSOLUTE_PATH source BASE_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR} NORMALIZE)
        set_property(GLOBAL APPEND PROPERTY OFFRAMP_SETTINGS_FILES ${source})
    endforeach()
endfunction()

# offramp_plugin_table(TABLE_FILE FOLDER HEADER TYPE SIGNATURE [PREFIX SIGNATURE]...): lists FOLDER/*.cpp and writes the table of their makers, one entry a
# file: "mask_png.cpp" gives {"mask-png", &make_mask_png}; each further PREFIX one more function of the file's, {..., &PREFIXmask_png}. Adding a plug-in is adding a file.
# OFFRAMP_PLUGINS_LEFT_OUT, of the caller's: files that cannot be built here.
function(offramp_plugin_table table_file folder header entry_type signature)
    file(GLOB plugin_sources CONFIGURE_DEPENDS ${folder}/*.cpp)
    if(OFFRAMP_PLUGINS_LEFT_OUT)
        list(REMOVE_ITEM plugin_sources ${OFFRAMP_PLUGINS_LEFT_OUT})
    endif()
    set(declarations "")
    set(entries "")
    foreach(source ${plugin_sources})
        get_filename_component(stem ${source} NAME_WE)
        string(REPLACE "_" "-" plugin_name ${stem})
        set(entry "\"${plugin_name}\"")
        set(functions make_ "${signature}" ${ARGN})
        while(functions)
            list(POP_FRONT functions prefix function_signature)
            string(REPLACE "@NAME@" "${prefix}${stem}" declaration "${function_signature}")
            string(APPEND declarations "${declaration}\;\n")
            string(APPEND entry ", &${prefix}${stem}")
        endwhile()
        string(APPEND entries "    {${entry}},\n")
    endforeach()
    string(REPLACE "\\;" ";" declarations "${declarations}")
    file(CONFIGURE OUTPUT ${table_file} @ONLY CONTENT
"// Written by CMake from the files of a plugins folder. Do not edit.
#include \"${header}\"

namespace offramp {
${declarations}
namespace {
const ${entry_type} kEntries[] = {
${entries}};
}  // namespace

std::span<const ${entry_type}> ${entry_type}::all() { return kEntries; }
}  // namespace offramp
")
    set(OFFRAMP_PLUGIN_SOURCES ${plugin_sources} ${table_file} PARENT_SCOPE)
endfunction()
