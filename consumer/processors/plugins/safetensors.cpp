#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/error.hpp"
#include "common/safetensors/safetensors_file.hpp"
#include "common/wire/tensor_spec.hpp"
#include "consumer/processors/processor.hpp"
#include "consumer/processors/raw/row_chunks.hpp"
#include "consumer/processors/raw/sample_array.hpp"
#include "consumer/sinks/files/atomic_file.hpp"
#include "consumer/sinks/files/output_name.hpp"

namespace offramp {
namespace {

// Errors: ConfigError for an element type that the format does not have.
std::string dtype_of(const TensorSpec& spec) {
    std::string name = safetensors_dtype(spec.dtype);
    if (!name.empty()) return name;
    throw ConfigError(
        "processor safetensors: " + describe_output(spec) + " has a type that the format does not support",
        "Use --processor npy or write");
}

// Writes all outputs of each sample as one file, OUTPUT/KEY.safetensors, whose metadata names key and model.
class Safetensors final : public Processor {
  public:
    Safetensors(std::string folder, Durability durability) : folder_(std::move(folder)), durability_(durability) {}

    void process(const SlabContents& slab, const Progress& progress, const StillCurrent& still_current) override {
        std::vector<TensorEntry> entries;
        for (const SampleView& sample : slab.samples) {
            if (sample.empty) continue;
            if (entries.empty() || slab.varies()) entries = entries_of(slab, sample.row);
            AtomicFile file(sample_path(folder_, sample.key, ".safetensors"), durability_);
            std::map<std::string, std::string> metadata{{"key", sample.key}, {"model", slab.model}};
            if (!sample.metadata.empty()) metadata.emplace("metadata", sample.metadata);
            const std::string header = safetensors_header(entries, metadata);
            file.write(std::as_bytes(std::span(header)));
            for (const TensorView& tensor : slab.tensors)
                in_chunks(array_.of(tensor, sample.row), progress,
                          [&](std::span<const std::byte> chunk) { file.write(chunk); });
            if (!still_current()) return;
            file.commit();
        }
    }

    std::vector<std::string> files_of(const SlabContents& /*slab*/, const SampleView& sample) const override {
        return {sample_name(sample.key, ".safetensors")};
    }

  private:
    static std::vector<TensorEntry> entries_of(const SlabContents& slab, std::size_t row) {
        std::vector<TensorEntry> entries;
        for (const TensorView& tensor : slab.tensors) {
            const TensorSpec spec = tensor.row_spec(row);
            const auto shape = sample_shape(spec);
            entries.push_back({.name = spec.name,
                               .dtype = dtype_of(spec),
                               .shape = {shape.begin(), shape.end()},
                               .bytes = spec.row_bytes()});
        }
        return entries;
    }

    std::string folder_;
    Durability durability_;
    SampleArray array_;
};

}  // namespace

std::unique_ptr<Processor> make_safetensors(const ProcessorOptions& options) {
    return std::make_unique<Safetensors>(options.output_for("safetensors"), options.durability());
}

std::unique_ptr<RunOutput> run_output_of_safetensors(const CatalogueValues& /*settings*/) { return nullptr; }

}  // namespace offramp
