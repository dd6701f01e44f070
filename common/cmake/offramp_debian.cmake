# Debian packages by CPack: offramp and offramp-dev. The runner is in none: Debian has no LibTorch that it could depend on.
set(debian ${CMAKE_SOURCE_DIR}/common/cmake/debian)
set(CPACK_PACKAGE_NAME offramp)
set(CPACK_PACKAGE_VENDOR "The Offramp authors")
set(CPACK_PACKAGE_CONTACT "The Offramp authors <maintainers@offramp.invalid>")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_COMPONENTS_ALL runtime development)
set(CPACK_STRIP_FILES ON)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)

set(CPACK_DEBIAN_RUNTIME_PACKAGE_NAME offramp)
set(CPACK_DEBIAN_RUNTIME_PACKAGE_SECTION science)
set(CPACK_DEBIAN_RUNTIME_PACKAGE_DEPENDS "python3 (>= 3.9)")
set(CPACK_DEBIAN_RUNTIME_PACKAGE_RECOMMENDS "python3-numpy, libpq5, libcurl4, libtiff6")
set(CPACK_DEBIAN_RUNTIME_PACKAGE_CONTROL_EXTRA "${debian}/triggers;${debian}/postinst;${debian}/prerm")
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
set(CPACK_COMPONENT_RUNTIME_DESCRIPTION "takes model outputs off the GPU without making it wait
Outputs are copied into shared memory, and handed to processes that
 may crash without losing a batch: consumers, the command offramp, the
 Python package offramp, and the library that they are made of.")

set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_NAME offramp-dev)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS "offramp (= ${PROJECT_VERSION})")
set(CPACK_COMPONENT_DEVELOPMENT_DESCRIPTION "headers of offramp, for CMake and pkg-config
A C ABI and C++ headers over it, for programs that submit batches or
 consume them.")

# Files that Debian requires in every package.
find_program(gzip gzip REQUIRED)
foreach(pair runtime=offramp development=offramp-dev)
    string(REPLACE "=" ";" pair ${pair})
    list(GET pair 0 component)
    list(GET pair 1 package)
    set(made ${CMAKE_BINARY_DIR}/install-made/${component}-doc)
    configure_file(${debian}/changelog.in ${made}/changelog @ONLY)
    execute_process(COMMAND ${gzip} -9 -n -c ${made}/changelog OUTPUT_FILE ${made}/changelog.gz COMMAND_ERROR_IS_FATAL ANY)
    install(FILES ${debian}/copyright ${made}/changelog.gz DESTINATION share/doc/${package} COMPONENT ${component} EXCLUDE_FROM_ALL)
endforeach()
include(CPack)
