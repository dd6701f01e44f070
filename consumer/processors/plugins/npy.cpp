#include <string>
#include <string_view>
#include <vector>

#include "consumer/processors/processor.hpp"
#include "consumer/processors/raw/array_formats.hpp"
#include "consumer/processors/raw/row_chunks.hpp"
#include "consumer/processors/raw/sample_array.hpp"
#include "consumer/sinks/files/atomic_file.hpp"
#include "consumer/sinks/files/output_name.hpp"

namespace offramp {
namespace {

// Writes each output of each sample as an array: OUTPUT/KEY.NAME.npy. NumPy has no bfloat16: these become float32 of
// the same value.
class Npy final : public Processor {
  public:
    Npy(std::string folder, Durability durability) : folder_(std::move(folder)), durability_(durability) {}

    void process(const SlabContents& slab, const Progress& progress, const StillCurrent& still_current) override {
        for (const SampleView& sample : slab.samples) {
            if (sample.empty) continue;
            for (const TensorView& tensor : slab.tensors) {
                AtomicFile file(sample_path(folder_, sample.key, suffix_of(tensor)), durability_);
                const std::string header = npy_header(tensor.row_spec(sample.row), "npy");
                file.write(std::as_bytes(std::span(header)));
                in_chunks(array_.of(tensor, sample.row), progress,
                          [&](std::span<const std::byte> chunk) { file.write(npy_.of(tensor.spec.dtype, chunk)); });
                if (!still_current()) return;
                file.commit();
            }
        }
    }

    std::vector<std::string> files_of(const SlabContents& slab, const SampleView& sample) const override {
        std::vector<std::string> files;
        for (const TensorView& tensor : slab.tensors) files.push_back(sample_name(sample.key, suffix_of(tensor)));
        return files;
    }

  private:
    static std::string suffix_of(const TensorView& tensor) {
        return "." + std::string(checked_output_name(tensor.spec.name)) + ".npy";
    }

    std::string folder_;
    Durability durability_;
    SampleArray array_;
    NpyNumbers npy_;
};

}  // namespace

std::unique_ptr<Processor> make_npy(const ProcessorOptions& options) {
    return std::make_unique<Npy>(options.output_for("npy"), options.durability());
}

std::unique_ptr<RunOutput> run_output_of_npy(const CatalogueValues& /*settings*/) { return nullptr; }

}  // namespace offramp
