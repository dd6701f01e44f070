#pragma once

#include <string>
#include <vector>

namespace offramp {

// The names of the models that need no file, `copy` among them, sorted. They are those of the module of models of this
// version, which is not loaded.
std::vector<std::string> built_in_model_names();

// Of the files in plugins/: the build makes it.
std::vector<std::string> model_plugin_names();

// Errors: ConfigError where `model` is neither one of them nor a file's name; it tells the name that was most likely
// meant.
void require_model_name(const std::string& model);

}  // namespace offramp
