#include "common/app/settings/effects.hpp"

#include <algorithm>

#include "common/app/settings/declared_setting.hpp"
#include "common/app/settings/processor_results.hpp"
#include "common/app/settings/sections.hpp"

namespace offramp {
namespace {

// True if the declared results of a processor in the run have this fact.
template <class Fact>
bool has_one_with(const RunConfig& config, Fact fact) {
    return std::ranges::any_of(config.processors(), [&](const std::string& name) {
        const ProcessorResults* const known = ProcessorResults::of(name);
        return known != nullptr && fact(*known);
    });
}

auto names_it(const std::string& flag) {
    return [flag](const ProcessorResults& known) {
        return std::ranges::find(known.shared_settings, flag) != known.shared_settings.end();
    };
}

// The run has a custom processor. Settings that all custom processors read are declared for "hosted"
// (consumer/hosts/make_hosted.cpp).
bool has_hosted(const RunConfig& config) {
    return std::ranges::any_of(config.processors(),
                               [](const std::string& name) { return ProcessorSpec::of(name).has_value(); });
}

// A processor in the run reads a setting whose value has this effect.
bool has_setting_with(const RunConfig& config, std::string DeclaredSetting::*value) {
    return std::ranges::any_of(DeclaredSetting::all(), [&](const DeclaredSetting& setting) {
        return !(setting.*value).empty() && has_reader_of(setting)(config) &&
               config.catalogue.text(setting.flag) == setting.*value;
    });
}

}  // namespace

Effect of_items_at_hand() { return {.on = Effect::On::Items, .in_processing = reads_input}; }

bool always(const RunConfig& /*config*/) { return true; }
bool is_copy(const RunConfig& config) { return config.model == "copy"; }
bool has_a_model(const RunConfig& config) { return !is_copy(config); }
bool is_synthetic(const RunConfig& config) { return config.source == "synthetic"; }
bool is_sharded(const RunConfig& config) { return !config.shard.empty(); }
bool has_groups(const RunConfig& config) { return !config.group.empty(); }
bool is_class_map(const RunConfig& config) { return config.transform == "class-map"; }
bool cuts_pictures(const RunConfig& config) { return gives_pictures(config.source) && config.resize_size > 0; }
bool keeps_shapes(const RunConfig& config) { return config.resize == "none"; }
bool is_bicubic(const RunConfig& config) { return gives_pictures(config.source) && config.interpolation == "bicubic"; }
bool decodes_on_gpu(const RunConfig& config) { return config.decode == "gpu"; }
bool is_tiled(const RunConfig& config) { return config.tile > 0; }
bool is_chunked(const RunConfig& config) { return config.chunk_tokens > 0; }
bool chooses_outputs(const RunConfig& config) { return !config.output_tensor.empty(); }
bool shows_its_batches(const RunConfig& config) { return is_synthetic(config) || config.has_processor("checksum"); }
bool is_by_length(const RunConfig& config) { return shows_its_batches(config) && config.group_rows() > 0; }

bool separates_foreground(const RunConfig& config) {
    return has_one_with(config, [](const ProcessorResults& known) {
        return known.reads == Reads::Masks || known.looks_at == LooksAt::Items || known.processor == "auto";
    });
}

bool records_items(const RunConfig& config) {
    return has_one_with(config, [](const ProcessorResults& known) { return known.looks_at == LooksAt::Items; });
}

bool reads_pictures(const RunConfig& config) {
    return has_one_with(config, [](const ProcessorResults& known) { return known.looks_at == LooksAt::Pictures; }) ||
           has_setting_with(config, &DeclaredSetting::reads_pictures);
}
bool reads_cut_pictures(const RunConfig& config) { return config.resize_size > 0 && reads_pictures(config); }
bool reads_beside_texts(const RunConfig& config) { return has_setting_with(config, &DeclaredSetting::reads_texts); }
bool reads_columns(const RunConfig& config) { return records_items(config) || reads_beside_texts(config); }
bool reads_input(const RunConfig& config) { return reads_pictures(config) || reads_columns(config); }

Effect::When has_reader_of(const DeclaredSetting& setting) {
    const ProcessorResults* const hosted = ProcessorResults::of("hosted");
    const bool of_texts = !setting.reads_texts.empty();  // no effect for other inputs
    return [flag = setting.flag, plug_in = setting.plug_in, of_texts, hosted](const RunConfig& config) {
        if (of_texts && !gives_text_tables(config.source)) return false;
        return (!plug_in.empty() && config.has_processor(plug_in)) || has_one_with(config, names_it(flag)) ||
               (hosted != nullptr && has_hosted(config) && names_it(flag)(*hosted));
    };
}

}  // namespace offramp
