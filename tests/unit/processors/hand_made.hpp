#pragma once

#include <initializer_list>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/wire/slab_view.hpp"
#include "consumer/processors/processor.hpp"
#include "tests/contract/processors/processor_world.hpp"

namespace offramp::test {

// One sample of hand-made outputs; the tensors borrow `storage`.
struct HandMade {
    std::vector<std::vector<float>> storage;
    SlabContents contents;

    void add(TensorSpec spec) {
        storage.emplace_back(spec.elements() + 1);
        const auto bytes = std::as_bytes(std::span(storage.back())).first(spec.elements() * spec.dtype.bytes());
        contents.tensors.push_back({std::move(spec), bytes});
    }
};

inline HandMade one_sample() {
    HandMade made;
    made.contents.samples.push_back({.item = 0, .batch = 0, .row = 0, .empty = false, .key = "sample"});
    made.contents.batches.push_back({.batch = 0, .first_row = 0, .rows = 1, .first_sample = 0, .reserved = 0});
    return made;
}

inline TensorSpec spec_of(const char* name, DType dtype, std::initializer_list<std::int64_t> shape) {
    return TensorSpec::contiguous(name, dtype, std::span(shape.begin(), shape.size()));
}

// The results of a processor for a slab, in a separate output folder.
inline Tree results_of(const std::string& processor, RunConfig config, const SlabContents& contents) {
    const ScratchFolder output;
    config.output = output.path();
    make_processor(processor, config)->process(contents, kNoProgress, kCurrent);
    return read_tree(output.path());
}

}  // namespace offramp::test
