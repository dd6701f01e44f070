#include "tests/support/faulty_consumer/rechecked.hpp"

#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <utility>

#include "tests/support/faulty_consumer/test_setting.hpp"

namespace offramp::faulty {

Rechecked::Rechecked(std::unique_ptr<Processor> inner)
    : inner_(std::move(inner)),
      file_(required_setting("OFFRAMP_TEST_RECHECK_FILE")),
      times_(number_setting("OFFRAMP_TEST_RECHECK_TIMES", 20)) {}

void Rechecked::process(const SlabContents& slab, const Progress& progress, const StillCurrent& still_current) {
    const std::uint64_t first = hash_of(slab, progress);
    inner_->process(slab, progress, still_current);
    for (std::uint64_t i = 0; i < times_; ++i) {
        if (hash_of(slab, progress) == first) continue;
        std::ofstream(file_, std::ios::app) << "process " << ::getpid() << ": a slab of batch "
                                            << (slab.batches.empty() ? 0 : slab.batches.front().batch) << " changed\n";
        std::abort();
    }
}

std::uint64_t Rechecked::hash_of(const SlabContents& slab, const Progress& progress) {
    std::uint64_t all = 0;
    for (const SampleView& sample : slab.samples)
        for (const TensorView& tensor : slab.tensors) all = all * 31 + hash_.of(tensor.row(sample.row), progress);
    return all;
}

}  // namespace offramp::faulty
