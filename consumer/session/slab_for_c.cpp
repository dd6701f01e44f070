#include "consumer/session/slab_for_c.hpp"

namespace offramp {

const offramp_slab& SlabForC::of(const SlabContents& slab) {
    samples_.clear();
    tensors_.clear();
    for (const SampleView& sample : slab.samples)
        samples_.push_back({.item = sample.item,
                            .batch = sample.batch,
                            .key = sample.key.c_str(),
                            .key_bytes = sample.key.size(),
                            .row = sample.row,
                            .empty = sample.empty ? 1U : 0U});
    for (const TensorView& tensor : slab.tensors)
        tensors_.push_back({.size = sizeof(offramp_tensor),
                            .name = tensor.spec.name.c_str(),
                            .dtype = {tensor.spec.dtype.code, tensor.spec.dtype.bits, tensor.spec.dtype.lanes},
                            .dims = static_cast<std::uint32_t>(tensor.spec.dims),
                            .shape = tensor.spec.shape.data(),
                            .strides = tensor.spec.strides.data(),
                            .data = tensor.bytes.data()});
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
