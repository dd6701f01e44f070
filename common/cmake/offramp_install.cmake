# Installed files, by component:
#   library                the library and all that its users build with: find_package(offramp), pkg-config
#   programs               consumers, the command, the Python package
#   runtime, development   both of them, as Debian packages divide them (offramp, offramp-dev)
#   wheel                  the folder of a wheel
# The last three only where they are asked for. Programs lie together wherever they are, and find one another by that: FOLDER/bin, FOLDER/lib,
# FOLDER/share; the launcher finds them at offramp/programs beside it (launch/offramp_launch/places.py).
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

# Packages are reproducible: a build ID would depend on the paths in debug information, which they do not contain.
foreach(program offramp_shared offramp-consumer offramp_worker)
    if(TARGET ${program})
        target_compile_options(${program} PRIVATE ${offramp_reproducible})
        target_link_options(${program} PRIVATE -Wl,--build-id=none)
    endif()
endforeach()

# --- the library: find_package(offramp), pkg-config ------------------------------------------------------------------
target_include_directories(offramp_shared INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>
    $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}/common/abi/include>)
set_target_properties(offramp_shared PROPERTIES EXPORT_NAME offramp)
target_compile_features(offramp_shared INTERFACE cxx_std_20)
# Like the SONAME: another minor version may have another ABI.
write_basic_package_version_file(${CMAKE_BINARY_DIR}/offrampConfigVersion.cmake COMPATIBILITY SameMinorVersion)

# offramp_install_library(LIBDIR EXPORT RUNTIME DEVELOPMENT [EXCLUDE_FROM_ALL]): the components that the library, and what one builds with, belong to.
function(offramp_install_library OFFRAMP_LIBDIR export runtime development)
    install(TARGETS offramp_shared EXPORT ${export} LIBRARY DESTINATION ${OFFRAMP_LIBDIR} COMPONENT ${runtime} NAMELINK_COMPONENT ${development} ${ARGN})
    install(DIRECTORY ${CMAKE_SOURCE_DIR}/common/abi/include/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT ${development} ${ARGN})
    install(EXPORT ${export} NAMESPACE offramp:: FILE offrampConfig.cmake DESTINATION ${OFFRAMP_LIBDIR}/cmake/offramp COMPONENT ${development} ${ARGN})
    install(FILES ${CMAKE_BINARY_DIR}/offrampConfigVersion.cmake DESTINATION ${OFFRAMP_LIBDIR}/cmake/offramp COMPONENT ${development} ${ARGN})
    cmake_path(RELATIVE_PATH CMAKE_INSTALL_PREFIX BASE_DIRECTORY ${CMAKE_INSTALL_PREFIX}/${OFFRAMP_LIBDIR}/pkgconfig OUTPUT_VARIABLE OFFRAMP_PC_TO_PREFIX)
    configure_file(${CMAKE_SOURCE_DIR}/common/abi/offramp.pc.in ${CMAKE_BINARY_DIR}/install-made/${development}/offramp.pc @ONLY)
    install(FILES ${CMAKE_BINARY_DIR}/install-made/${development}/offramp.pc DESTINATION ${OFFRAMP_LIBDIR}/pkgconfig COMPONENT ${development} ${ARGN})
endfunction()
set(debian_libdir lib/${CMAKE_LIBRARY_ARCHITECTURE})
offramp_install_library(${CMAKE_INSTALL_LIBDIR} offramp library library)
offramp_install_library(${debian_libdir} offramp_apart runtime development EXCLUDE_FROM_ALL)

# --- consumers, the command, the Python package ------------------------------------------------------------------------
# A sanitizer's build has no library for interpreters.
if(OFFRAMP_SANITIZER)
    return()
endif()

# offramp_install_programs(COMPONENT FOLDER PYTHON [EXCLUDE_FROM_ALL]): programs into FOLDER, packages of Python into PYTHON.
function(offramp_install_programs component folder python)
    install(TARGETS offramp-consumer RUNTIME DESTINATION ${folder}/bin COMPONENT ${component} ${ARGN})
    install(TARGETS offramp_worker LIBRARY DESTINATION ${folder}/lib COMPONENT ${component} ${ARGN})
    set(launch ${CMAKE_SOURCE_DIR}/launch)
    install(FILES ${launch}/usage-installed.txt DESTINATION ${folder}/share/launch COMPONENT ${component} ${ARGN})
    install(DIRECTORY ${launch}/help ${launch}/new_processor ${launch}/numpy_demo DESTINATION ${folder}/share/launch COMPONENT ${component} ${ARGN}
            PATTERN __pycache__ EXCLUDE PATTERN README.md EXCLUDE)
    install(DIRECTORY ${launch}/guide DESTINATION ${folder}/share/launch COMPONENT ${component} ${ARGN})
    install(DIRECTORY ${launch}/python/offramp ${launch}/offramp_launch DESTINATION ${python} COMPONENT ${component} ${ARGN}
            PATTERN __pycache__ EXCLUDE)
endfunction()

# offramp_install_link(COMPONENT LINK TO [EXCLUDE_FROM_ALL]): a relative link; a wheel can have none.
function(offramp_install_link component link to)
    cmake_path(GET link PARENT_PATH folder)
    cmake_path(RELATIVE_PATH to BASE_DIRECTORY ${folder} OUTPUT_VARIABLE there)
    string(MAKE_C_IDENTIFIER "${component}-${link}" name)
    set(made ${CMAKE_BINARY_DIR}/install-made/${name})
    cmake_path(GET link FILENAME file)
    file(MAKE_DIRECTORY ${made})
    file(CREATE_LINK ${there} ${made}/${file} SYMBOLIC)
    install(FILES ${made}/${file} DESTINATION ${folder} COMPONENT ${component} ${ARGN})
endfunction()

foreach(component programs runtime)
    set(only_asked "")
    set(programs ${CMAKE_INSTALL_LIBDIR}/offramp)
    set(python ${programs}/share/python)
    if(component STREQUAL "runtime")
        set(only_asked EXCLUDE_FROM_ALL)
        set(programs ${debian_libdir}/offramp)
        set(python lib/python3/dist-packages)
        offramp_install_link(${component} ${programs}/share/python/offramp ${python}/offramp ${only_asked})
    endif()
    offramp_install_programs(${component} ${programs} ${python} ${only_asked})
    offramp_install_link(${component} ${python}/offramp/programs ${programs} ${only_asked})
    offramp_install_link(${component} ${CMAKE_INSTALL_BINDIR}/offramp-consumer ${programs}/bin/offramp-consumer ${only_asked})
    cmake_path(RELATIVE_PATH python BASE_DIRECTORY ${CMAKE_INSTALL_BINDIR} OUTPUT_VARIABLE OFFRAMP_PYTHON_FROM_BIN)
    configure_file(${CMAKE_SOURCE_DIR}/launch/offramp.in ${CMAKE_BINARY_DIR}/install-made/${component}/offramp @ONLY)
    install(PROGRAMS ${CMAKE_BINARY_DIR}/install-made/${component}/offramp DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT ${component} ${only_asked})
endforeach()

# The wheel's library is in its package, which is searched first; it only has the name by which it is opened.
# Its headers are for processors in C and C++ (launch/python/offramp/testing.py); those of Debian are in another package.
offramp_install_programs(wheel offramp/programs . EXCLUDE_FROM_ALL)
install(DIRECTORY ${CMAKE_SOURCE_DIR}/common/abi/include/ DESTINATION offramp/programs/include COMPONENT wheel EXCLUDE_FROM_ALL)
install(FILES $<TARGET_FILE:offramp_shared> DESTINATION offramp RENAME $<TARGET_SONAME_FILE_NAME:offramp_shared> COMPONENT wheel
        EXCLUDE_FROM_ALL)

include(offramp_debian)
