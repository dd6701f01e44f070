# offramp_settings_catalogue: the settings that plug-ins and rooms declare in their own sources, as data that every program has. Included last of
# all rooms, which say by offramp_declares_settings (offramp_targets.cmake) where to look.
get_property(declaring GLOBAL PROPERTY OFFRAMP_DECLARES_SETTINGS)
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
