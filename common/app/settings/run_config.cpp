#include "common/app/settings/run_config.hpp"

#include <nlohmann/json.hpp>

#include "common/app/settings/given_values.hpp"
#include "common/app/settings/processor_results.hpp"
#include "common/app/settings/setting_group.hpp"
#include "common/app/settings/toml.hpp"
#include "common/base/error.hpp"

namespace offramp {

std::optional<RunConfig> parse_run_config(int argc, const char* const* argv, const std::string& program) {
    const std::vector<Setting> settings = make_settings();
    const auto given = read_given(argc, argv, program, settings);
    if (!given) return std::nullopt;

    RunConfig config;
    for (const Setting& setting : settings)
        if (setting.flag == "profile" || setting.flag == "sink") apply(setting, *given, config);
    apply_profile(config.profile, config);
    for (const Setting& setting : settings) apply(setting, *given, config);
    check_together(config, *given, program);
    return config;
}

namespace {

// The article's experiment: 64x3x512x512 from the host, 21 classes of raw logits, and every batch serialised
// and written to /dev/null by 8 consumers. Precision is left to the device:
// TF32 on a GPU, as PyTorch's defaults let cuDNN use it in convolutions.
void apply_article(RunConfig& config) {
    config.consumers = 8;
    config.slabs = 8;
    config.decode_workers = 8;
    config.batch = 64;
    config.image_size = 512;
    config.source = "synthetic";
    config.synthetic_on = "host";
    config.batches = 110;
    config.warmup_batches = 10;
    config.model = "deeplabv3-resnet50";
    config.random_weights = true;
    config.memory_format = "contiguous";
    config.processor = "write";
    config.catalogue.put("write-path", "/dev/null");
    config.catalogue.put("write-copy", true);
}

// Turns lines of text into vectors, in the database of --sink if given, with a model that `offramp export
// sentence:FOLDER` made.
void apply_embeddings(RunConfig& config) { config.processor = processor_for_vectors(config); }

std::string as_toml(const SettingValue& value) {
    const auto* const text = std::get_if<std::string>(&value);
    return text != nullptr ? quote_toml(*text) : to_text(value);
}

}  // namespace

std::vector<std::string> profile_names() { return {"default", "article", "embeddings"}; }

void apply_profile(const std::string& name, RunConfig& config) {
    config.profile = name;
    if (name == "article")
        apply_article(config);
    else if (name == "embeddings")
        apply_embeddings(config);
    else
        expect(name == "default", "a profile of profile_names()");
}

std::string to_toml(const RunConfig& config) {
    std::string text;
    std::string group;
    for (const Setting& setting : make_settings()) {
        if (setting.command_line_only) continue;
        if (setting.group != group) text += (text.empty() ? "# " : "\n# ") + setting.group + "\n";
        group = setting.group;
        text += setting.flag + " = " + as_toml(setting.get(config)) + "\n";
    }
    return text;
}

std::string to_json(const RunConfig& config) {
    nlohmann::ordered_json object = nlohmann::ordered_json::object();
    for (const Setting& setting : make_settings()) {
        if (setting.command_line_only) continue;
        std::visit([&](const auto& value) { object[setting.flag] = value; }, setting.get(config));
    }
    return object.dump(2);
}

}  // namespace offramp
