# libofframp.so: both doors over the C ABI, linked from the rooms' archives, of which it shows the ABI alone (offramp.map). Two files are compiled for it:
# the log, so that a program may use any spdlog, and the effect of a broken contract in the host's process, which the linker finds before the room's.
set(shared_rooms offramp_abi offramp_base offramp_wire offramp_shm offramp_transport offramp_json offramp_safetensors offramp_dead_letters
    offramp_device offramp_ledger offramp_pool offramp_broker offramp_status offramp_recovery offramp_egress offramp_egress_run offramp_egress_abi offramp_consumer_session
    offramp_consumer_abi)
# As a shared library's sources are compiled: a call within a file may be inlined, since no other definition can replace it.
set_target_properties(${shared_rooms} PROPERTIES CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
add_library(offramp_shared SHARED ${CMAKE_SOURCE_DIR}/common/abi/log_inside.cpp ${CMAKE_SOURCE_DIR}/common/abi/failed_expectation.cpp
    $<TARGET_OBJECTS:offramp_abi> $<TARGET_OBJECTS:offramp_consumer_abi> $<TARGET_OBJECTS:offramp_egress_abi>)
set_target_properties(offramp_shared PROPERTIES OUTPUT_NAME offramp VERSION ${PROJECT_VERSION}
    SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR} CXX_VISIBILITY_PRESET hidden
    VISIBILITY_INLINES_HIDDEN ON UNITY_BUILD OFF LINK_DEPENDS ${CMAKE_SOURCE_DIR}/common/abi/offramp.map)
set_source_files_properties(${CMAKE_SOURCE_DIR}/common/abi/log_inside.cpp PROPERTIES COMPILE_OPTIONS
    "-USPDLOG_SHARED_LIB$<$<BOOL:${OFFRAMP_SANITIZER}>:;-fno-sanitize=all>")   # as Debian's are: instrumented it takes three times as long
target_link_libraries(offramp_shared PRIVATE offramp_warnings ${shared_rooms})
# --as-needed: nothing is left of the libspdlog and libfmt that the rooms bring along. nodelete: libzmq calls functions of this library.
target_link_options(offramp_shared PRIVATE -Wl,--version-script=${CMAKE_SOURCE_DIR}/common/abi/offramp.map -Wl,--no-undefined -Wl,--as-needed -Wl,-z,nodelete)
add_library(offramp::offramp ALIAS offramp_shared)
