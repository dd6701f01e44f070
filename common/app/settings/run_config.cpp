#include "common/app/settings/run_config.hpp"

#include "common/app/settings/given_values.hpp"
#include "common/app/settings/processor_results.hpp"
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

}  // namespace offramp
