#pragma once

#include <memory>

#include "producer/runner/models/model.hpp"

namespace offramp {

// A model of many short kernels spends its time on launching them. On a GPU such a model is recorded once as a CUDA
// graph and then replayed, one launch per batch, with the same kernels and the same bits. The first batches run
// unrecorded, so that libraries are warm. Returns `model` itself if there is nothing to gain or to record: on the CPU,
// or when the options forbid it. The result also copies input and outputs on the device, so it suits models with small
// tensors. `model`: run() submits to the stream only, waits for nothing, and does the same work whatever the input's
// values. Errors: Error (Internal) at the fourth batch when the model cannot be recorded; --cuda-graphs off runs it
// without.
std::unique_ptr<Model> with_graph_replay(std::unique_ptr<Model> model, const ModelOptions& options);

}  // namespace offramp
