#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>

#include "consumer/processors/processor.hpp"
#include "consumer/processors/raw/row_chunks.hpp"
#include "consumer/sinks/files/atomic_file.hpp"
#include "consumer/sinks/segments/segment_file.hpp"

namespace offramp {
namespace {

// Reads every byte of every sample and hashes each output with XXH3_64. With an output folder, writes one segment line
// for each: item, batch, key, output, hash. It hashes a row's bytes in stored order, so channels-last and contiguous
// hashes differ.
class Checksum final : public Processor {
  public:
    Checksum(const std::string& output, Durability durability) {
        if (!output.empty()) lines_.emplace(output, "checksum", durability);
    }

    void process(const SlabContents& slab, const Progress& progress, const StillCurrent& still_current) override {
        if (lines_ && !slab.batches.empty()) lines_->begin(slab.batches.front().batch, slab.batches.front().first_row);
        for (const SampleView& sample : slab.samples) {
            if (sample.empty) continue;
            for (const TensorView& tensor : slab.tensors) {
                const std::uint64_t hash = hash_.of(tensor.row(sample.row), progress);
                if (lines_)
                    lines_->add_line(sample.item, {std::to_string(sample.batch), sample.key, tensor.spec.name,
                                                   fmt::format("{:016x}", hash)});
            }
        }
        if (lines_ && still_current()) lines_->commit();
    }

  private:
    RowHash hash_;
    std::optional<SegmentFile> lines_;
};

// item, batch, key, output and 16 digits of a hash.
bool begins_as_a_checksum(std::string_view line) {
    constexpr std::size_t kFields = 5, kHashDigits = 16;
    std::size_t tabs = 0;
    for (const char character : line) tabs += character == '\t' ? 1 : 0;
    const std::string_view hash = line.substr(std::min(line.rfind('\t') + 1, line.size()));
    return tabs == kFields - 1 && line.find_first_not_of("0123456789") == line.find('\t') &&
           hash.size() == kHashDigits && hash.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

}  // namespace

std::unique_ptr<Processor> make_checksum(const ProcessorOptions& options) {
    const std::string& output = options.results.output;
    return std::make_unique<Checksum>(output.empty() ? output : options.shared_output_for("checksum"),
                                      options.durability());
}

std::unique_ptr<RunOutput> run_output_of_checksum(const CatalogueValues& /*settings*/) {
    return merged_lines("checksum", "checksums.tsv", &begins_as_a_checksum);
}

}  // namespace offramp
