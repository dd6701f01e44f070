# offramp_settings_catalogue: the settings files of plug-ins and rooms, compiled into every program. Included last of all rooms, which name
# their files with offramp_settings_files (offramp_targets.cmake).
get_property(declaring GLOBAL PROPERTY OFFRAMP_SETTINGS_FILES)
list(REMOVE_DUPLICATES declaring)
list(JOIN declaring "|" declaring_in_one)
set(catalogue ${CMAKE_BINARY_DIR}/generated/settings_catalogue.cpp)
add_custom_command(OUTPUT ${catalogue}
    COMMAND ${CMAKE_COMMAND} -DOUTPUT=${catalogue}.new -DROOT=${CMAKE_SOURCE_DIR} "-DSOURCES=${declaring_in_one}"
            -P ${CMAKE_SOURCE_DIR}/common/cmake/write_catalogue.cmake
    COMMAND ${CMAKE_COMMAND} -E copy_if_different ${catalogue}.new ${catalogue}   # not compiled again for every edit of a plug-in
    DEPENDS ${declaring} ${CMAKE_SOURCE_DIR}/common/cmake/write_catalogue.cmake VERBATIM)
add_library(offramp_settings_catalogue STATIC ${catalogue})
target_link_libraries(offramp_settings_catalogue PRIVATE offramp_warnings)
