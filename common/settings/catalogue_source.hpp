#pragma once

#include <span>
#include <string_view>

namespace offramp {

// What one source file declares, as text: settings (declared_setting.hpp), and a processor's results
// (processor_results.hpp). CMake finds it in the files of the rooms that say they declare some
// (offramp_declares_settings), so that every program has it, whichever rooms it is made of.
struct CatalogueSource {
    std::string_view file;     // "consumer/processors/plugins/image.cpp"
    std::string_view plug_in;  // "image"; empty: it is not a plug-in's file
    std::string_view text;     // TOML, a table [[setting]] each, and [results]

    static std::span<const CatalogueSource> all();
};

}  // namespace offramp
