#pragma once

#include <span>
#include <string_view>

namespace offramp {

// The settings that one source file declares (declared_setting.hpp), as text. CMake finds them in the files of the
// rooms that say they declare some (offramp_declares_settings), so that every program has them, whichever rooms it is
// made of.
struct CatalogueSource {
    std::string_view file;     // "consumer/processors/plugins/image.cpp"
    std::string_view plug_in;  // "image"; empty: it is not a plug-in's file
    std::string_view text;     // TOML, one table [[setting]] each

    static std::span<const CatalogueSource> all();
};

}  // namespace offramp
