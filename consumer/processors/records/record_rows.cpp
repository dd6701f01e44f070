#include "consumer/processors/records/record_rows.hpp"

#include <array>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <utility>

#include "common/json/json_text.hpp"
#include "common/wire/output_forms.hpp"

namespace offramp {
namespace {

std::string text_of(const nlohmann::json& value) { return json_text(value); }

}  // namespace

RecordRows::RecordRows(const ProcessorOptions& options, std::string_view processor)
    : chain_(options.chain),
      columns_(columns_of_input(options.input, processor, options.run_dir)),
      ids_(options.foreground_scale()) {}

std::span<const RecordRow> RecordRows::of(const SlabContents& slab, const Progress& progress) {
    const auto outputs = segmentation_outputs_if_any(slab);
    rows_.clear();
    for (const SampleView& sample : slab.samples) {
        progress();
        RecordRow& row = rows_.emplace_back();
        row.sample = &sample;
        if (columns_) {
            BesideText beside = sample.empty ? columns_->of_skipped(sample.key) : columns_->of(sample.key);
            if (!beside.id.empty()) row.id = std::move(beside.id);
            row.columns = std::move(beside.columns);
        }
        if (!sample.metadata.empty()) row.columns = sample.metadata;
        if (sample.empty) continue;
        row.files = files_of_others(slab, sample);
        if (!outputs.empty()) row.classes = classes_of(outputs, sample, progress);
    }
    return rows_;
}

std::string RecordRows::files_of_others(const SlabContents& slab, const SampleView& sample) const {
    nlohmann::json files = nlohmann::json::object();
    if (chain_ != nullptr)
        for (const NamedProcessor& other : *chain_)
            for (const std::string& file : other.processor->files_of(slab, sample))
                files[other.name].push_back(other.name + "/" + file);
    return text_of(files);
}

std::string RecordRows::classes_of(const std::vector<SegmentationOutput>& outputs, const SampleView& sample,
                                   const Progress& progress) {
    nlohmann::json all = nlohmann::json::object();
    for (const SegmentationOutput& output : outputs) {
        std::array<std::uint64_t, kMostClassesOfMasks> pixels{};
        const auto ids = ids_.of(output, sample, progress);
        for (const std::uint8_t id : ids) ++pixels[id];
        nlohmann::json shares = nlohmann::json::object();
        for (std::size_t id = 0; id < pixels.size(); ++id)
            if (pixels[id] > 0)
                shares[std::to_string(id)] = static_cast<double>(pixels[id]) / static_cast<double>(ids.size());
        if (outputs.size() == 1) return text_of(shares);
        all[output.tensor->spec.name] = std::move(shares);
    }
    return text_of(all);
}

}  // namespace offramp
