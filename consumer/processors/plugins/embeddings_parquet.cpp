#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/error.hpp"
#include "consumer/processors/processor.hpp"
#include "consumer/processors/vectors/sample_vectors.hpp"
#include "consumer/sinks/files/atomic_file.hpp"
#include "consumer/sinks/parquet/parquet_module.hpp"
#include "consumer/sinks/parquet/vector_rows.hpp"
#include "consumer/sinks/segments/segment_file.hpp"

namespace offramp {
namespace {

// The same as in parquet_module.cpp.
constexpr std::string_view kMaker = "offramp";

// All lists of a column have one length.
void require_one_length(const std::vector<VectorOutput>& outputs, const SlabContents& slab) {
    for (const VectorOutput& output : outputs)
        if (output.dimensions != outputs.front().dimensions)
            throw ConfigError("processor embeddings-parquet: outputs '" + outputs.front().name() + "' and '" +
                                  output.name() + "'" + slab.origin() + " make vectors of " +
                                  std::to_string(outputs.front().dimensions) + " and " +
                                  std::to_string(output.dimensions) + " numbers, but a Parquet column has one length",
                              "Shorten them with --truncate-dim, or use --processor embeddings-sqlite");
}

// Puts each sample's vectors into OUTPUT/embeddings.parquet. Writes rows as segments, one per slab, which become the
// file at the run's end.
class EmbeddingsParquet final : public Processor {
  public:
    EmbeddingsParquet(const std::string& folder, const ProcessorOptions& options)
        : vectors_(options.settings, "embeddings-parquet"),
          beside_(options, "embeddings-parquet"),
          rows_(folder, "embeddings-parquet", options.durability()) {
        parquet_library();  // fail now, not after the whole computation
    }

    void process(const SlabContents& slab, const Progress& progress, const StillCurrent& still_current) override {
        const std::vector<VectorOutput> outputs = vectors_.outputs(slab);
        require_one_length(outputs, slab);
        if (!slab.batches.empty()) rows_.begin(slab.batches.front().batch, slab.batches.front().first_row);
        for (const SampleView& sample : slab.samples) {
            progress();
            if (sample.empty) continue;
            origin_ = beside_.of(sample.key);
            for (const VectorOutput& output : outputs) add_row(sample, output, slab.model);
        }
        vectors_.report_unstored();
        if (still_current()) rows_.commit();
    }

  private:
    void add_row(const SampleView& sample, const VectorOutput& output, const std::string& model) {
        row_.clear();
        append_row(row_, {.item = sample.item,
                          .kind = {.dimensions = output.dimensions,
                                   .halves = vectors_.dtype() == "float16",
                                   .normalized = vectors_.normalizes(),
                                   .columns = beside_.columns(),
                                   .chunks = beside_.chunks(),
                                   .model = model},
                          .key = origin_.key,
                          .output = output.name(),
                          .vector = vectors_.of(output, sample),
                          .id = origin_.beside.id,
                          .columns = origin_.beside.columns,
                          .chunk = origin_.chunk.number,
                          .start_char = origin_.chunk.begin,
                          .end_char = origin_.chunk.end});
        rows_.add_record(row_);
    }

    SampleVectors vectors_;
    ColumnsBeside beside_;
    VectorOrigin origin_;  // of the current sample
    SegmentFile rows_;
    std::string row_;
};

// The footer, before its length and the last four bytes, names the file's maker. Reading it does not need Arrow.
bool is_offramp_file(const std::string& path) {
    constexpr std::string_view kMagic = "PAR1";
    constexpr std::uint64_t kEnd = 8;
    RecordFile file(path);
    if (file.size() < 3 * kMagic.size() || !file.from(0, kMagic.size()).starts_with(kMagic)) return false;
    const std::string end(file.from(file.size() - kEnd, kEnd));
    if (!end.ends_with(kMagic)) return false;
    std::uint64_t bytes = 0;
    for (std::size_t i = 4; i > 0; --i) bytes = bytes << 8 | static_cast<unsigned char>(end[i - 1]);
    if (bytes > file.size() - kEnd - kMagic.size()) return false;
    return file.from(file.size() - kEnd - bytes, bytes).substr(0, bytes).find(kMaker) != std::string_view::npos;
}

}  // namespace

std::unique_ptr<Processor> make_embeddings_parquet(const ProcessorOptions& options) {
    return std::make_unique<EmbeddingsParquet>(options.shared_output_for("embeddings-parquet"), options);
}

std::unique_ptr<RunOutput> run_output_of_embeddings_parquet(const CatalogueValues& /*settings*/) {
    return merged_segments("embeddings-parquet", "embeddings.parquet", vectors_form(), &is_offramp_file);
}

}  // namespace offramp
