#include <string_view>

#include "consumer/processors/processor.hpp"

namespace offramp {
namespace {

// Touches no byte of the payload, which measures the cost of moving slabs and handing them over.
class None final : public Processor {
  public:
    void process(const SlabContents& slab, const Progress& progress, const StillCurrent& /*still_current*/) override {
        for (std::size_t i = 0; i < slab.samples.size(); ++i) progress();
    }
};

}  // namespace

std::unique_ptr<Processor> make_none(const ProcessorOptions& /*options*/) { return std::make_unique<None>(); }

std::unique_ptr<RunOutput> run_output_of_none(const CatalogueValues& /*settings*/) { return nullptr; }

}  // namespace offramp
