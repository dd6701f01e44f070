#include "producer/runner/sources/opened_input.hpp"

#include <filesystem>
#include <system_error>

#include "common/app/images/item_keys.hpp"
#include "common/app/images/open_pictures.hpp"
#include "common/app/settings/source_of_input.hpp"
#include "common/app/texts/open_texts.hpp"
#include "common/base/error.hpp"
#include "producer/runner/sources/npy_file.hpp"
#include "producer/runner/sources/text/text_lines.hpp"

namespace offramp {
namespace {

bool has_arrays(const std::string& folder) {
    std::error_code problem;
    for (std::filesystem::directory_iterator entry(folder, std::filesystem::directory_options::skip_permission_denied,
                                                   problem);
         !problem && entry != std::filesystem::directory_iterator(); entry.increment(problem))
        if (entry->path().extension() == ".npy") return true;
    return false;
}

void require_arrays(const std::string& input) {
    if (!std::filesystem::is_directory(input)) return static_cast<void>(NpyFile(input));
    if (!has_arrays(input))
        throw ConfigError("--input '" + printable(input) + "': no .npy file in this folder",
                          "Give a .npy file, or a folder that has one for each of the model's inputs",
                          ErrorKind::NoInput);
}

}  // namespace

OpenedInput open_input(const InputSettings& config, const StillWanted& still_wanted) {
    if (gives_pictures(config.source)) {
        try {
            return {.pictures = open_pictures(config.source, config.input, still_wanted, config.input_list),
                    .texts = nullptr};
        } catch (const ConfigError&) {
            if (!has_arrays(config.input)) throw;
        }
    }
    if (gives_text_tables(config.source)) return {.pictures = nullptr, .texts = open_texts(config, still_wanted)};
    if (config.source == "text" && !config.input.empty()) require_lines(config.input);
    if (config.source == "npy" && !config.input.empty()) require_arrays(config.input);
    return {};
}

}  // namespace offramp
