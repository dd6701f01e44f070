#include "consumer/session/slab_for_c.hpp"

namespace offramp {

void SlabForC::describe_rows(const SlabContents& slab) {
    rows_.clear();
    shapes_.clear();
    std::size_t rows = 0, extents = 0;
    for (const TensorView& tensor : slab.tensors) {
        rows += tensor.samples.size();
        extents += tensor.samples.size() * (tensor.spec.dims - 1);
    }
    rows_.reserve(rows);  // the structs below point into both
    shapes_.reserve(extents);
    for (std::size_t i = 0; i < slab.tensors.size(); ++i) {
        const TensorView& tensor = slab.tensors[i];
        if (!tensor.spec.varies()) continue;
        tensors_[i].data = nullptr;
        tensors_[i].rows = rows_.data() + rows_.size();
        std::size_t next = 0;
        for (const auto sample : tensor.samples) {
            rows_.push_back({.data = sample.data(), .bytes = sample.size(), .shape = shapes_.data() + shapes_.size()});
            for (std::size_t d = 1; d < tensor.spec.dims; ++d)
                shapes_.push_back(tensor.spec.shape[d] == kVarying ? tensor.extents[next++] : tensor.spec.shape[d]);
        }
    }
}

const offramp_slab& SlabForC::of(const SlabContents& slab) {
    samples_.clear();
    tensors_.clear();
    for (const SampleView& sample : slab.samples)
        samples_.push_back({.item = sample.item,
                            .batch = sample.batch,
                            .key = sample.key.c_str(),
                            .key_bytes = sample.key.size(),
                            .row = sample.row,
                            .empty = sample.empty ? 1U : 0U,
                            .metadata = sample.metadata.c_str(),
                            .metadata_bytes = sample.metadata.size()});
    for (const TensorView& tensor : slab.tensors)
        tensors_.push_back({.size = sizeof(offramp_tensor),
                            .name = tensor.spec.name.c_str(),
                            .dtype = {tensor.spec.dtype.code, tensor.spec.dtype.bits, tensor.spec.dtype.lanes},
                            .dims = static_cast<std::uint32_t>(tensor.spec.dims),
                            .shape = tensor.spec.shape.data(),
                            .strides = tensor.spec.strides.data(),
                            .data = tensor.bytes.data(),
                            .rows = nullptr});
    if (slab.varies()) describe_rows(slab);
    slab_ = {.size = sizeof(offramp_slab),
             .sample_size = sizeof(offramp_sample),
             .tensor_size = sizeof(offramp_tensor),
             .samples = samples_.data(),
             .sample_count = static_cast<std::uint32_t>(samples_.size()),
             .tensor_count = static_cast<std::uint32_t>(tensors_.size()),
             .tensors = tensors_.data(),
             .name = slab.model.c_str()};
    return slab_;
}

}  // namespace offramp
