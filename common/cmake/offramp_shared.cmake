# libofframp.so.1: both doors over the C ABI. Compiled from the rooms' sources once more: hidden but for the ABI, and with the log inside, so that a
# program may have any spdlog of its own.
set(shared_rooms offramp_abi offramp_base offramp_wire offramp_shm offramp_transport offramp_json offramp_safetensors offramp_dead_letters
    offramp_device offramp_ledger offramp_pool offramp_broker offramp_recovery offramp_egress offramp_egress_run offramp_egress_abi offramp_consumer_session
    offramp_consumer_abi)
set(shared_sources "")
foreach(room ${shared_rooms})
    get_target_property(folder ${room} SOURCE_DIR)
    get_target_property(sources ${room} SOURCES)
    foreach(source ${sources})
        cmake_path(ABSOLUTE_PATH source BASE_DIRECTORY ${folder})
        list(APPEND shared_sources ${source})
        set_source_files_properties(${source} PROPERTIES UNITY_GROUP ${room})
    endforeach()
endforeach()
add_library(offramp_shared SHARED ${shared_sources})
set_target_properties(offramp_shared PROPERTIES OUTPUT_NAME offramp VERSION ${PROJECT_VERSION} SOVERSION 1 CXX_VISIBILITY_PRESET hidden
    VISIBILITY_INLINES_HIDDEN ON UNITY_BUILD ON UNITY_BUILD_MODE GROUP LINK_DEPENDS ${CMAKE_SOURCE_DIR}/common/abi/offramp.map)
target_compile_definitions(offramp_shared PRIVATE OFFRAMP_BUILDING SPDLOG_FMT_EXTERNAL FMT_HEADER_ONLY
    OFFRAMP_VERSION="${PROJECT_VERSION}")
target_include_directories(offramp_shared PRIVATE ${CMAKE_SOURCE_DIR} ${CMAKE_SOURCE_DIR}/common/abi/include)
target_include_directories(offramp_shared SYSTEM PRIVATE ${OFFRAMP_XXHASH_INCLUDE})
target_link_libraries(offramp_shared PRIVATE offramp_warnings PkgConfig::ZMQ Boost::headers nlohmann_json::nlohmann_json offramp::nvtx
    Threads::Threads ${CMAKE_DL_LIBS} rt)
target_link_options(offramp_shared PRIVATE -Wl,--version-script=${CMAKE_SOURCE_DIR}/common/abi/offramp.map -Wl,--no-undefined -Wl,--as-needed)
add_library(offramp::offramp ALIAS offramp_shared)

# --- the package: find_package(offramp 1), pkg-config ------------------------------------------------------------------
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
target_include_directories(offramp_shared INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>
    $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}/common/abi/include>)
set_target_properties(offramp_shared PROPERTIES EXPORT_NAME offramp)
install(TARGETS offramp_shared EXPORT offramp COMPONENT library LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY ${CMAKE_SOURCE_DIR}/common/abi/include/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT library)
install(EXPORT offramp NAMESPACE offramp:: FILE offrampConfig.cmake DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/offramp COMPONENT library)
# The ABI's number, not the project's: find_package(offramp 1).
write_basic_package_version_file(${CMAKE_BINARY_DIR}/offrampConfigVersion.cmake VERSION 1.${PROJECT_VERSION} COMPATIBILITY SameMajorVersion)
install(FILES ${CMAKE_BINARY_DIR}/offrampConfigVersion.cmake DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/offramp COMPONENT library)
cmake_path(RELATIVE_PATH CMAKE_INSTALL_PREFIX BASE_DIRECTORY ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig OUTPUT_VARIABLE OFFRAMP_PC_TO_PREFIX)
configure_file(${CMAKE_SOURCE_DIR}/common/abi/offramp.pc.in ${CMAKE_BINARY_DIR}/offramp.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/offramp.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT library)
