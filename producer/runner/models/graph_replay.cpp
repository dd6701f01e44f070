#include "producer/runner/models/graph_replay.hpp"

#include "producer/runner/models/execution.hpp"

#ifdef OFFRAMP_TORCH_HAS_CUDA
#include <ATen/cuda/CUDAGraph.h>
#include <ATen/ops/empty_like.h>

#include "common/base/error.hpp"
#endif

namespace offramp {

#ifdef OFFRAMP_TORCH_HAS_CUDA
namespace {

// cuBLAS and cuDNN choose kernels and reserve workspaces in their first calls, which cannot be recorded.
constexpr int kBatchesBefore = 3;

class GraphReplay final : public Model {
  public:
    GraphReplay(std::unique_ptr<Model> model, const ModelOptions& options)
        : execution_(options), model_(std::move(model)), input_spec_(model_->input().tensor) {}

    std::string description() const override { return model_->description(); }
    std::uint64_t parameters() const override { return model_->parameters(); }
    bool random_weights() const override { return model_->random_weights(); }
    ModelInput input() const override { return model_->input(); }
    std::vector<TensorSpec> outputs() const override { return model_->outputs(); }
    std::uint32_t upsample_factor() const override { return model_->upsample_factor(); }

    std::vector<DeviceTensor> run(const void* input) override {
        if (before_ < kBatchesBefore) {
            ++before_;
            return model_->run(input);
        }
        return execution_.in([&] {
            const at::Tensor given = execution_.view(input, input_spec_);
            if (!graph_) record(given);
            input_.copy_(given, /*non_blocking=*/true);
            graph_->replay();
            std::vector<DeviceTensor> copies;
            for (const DeviceTensor& output : outputs_)
                copies.push_back(Execution::hand_out(execution_.view(output.data, output.spec).clone(), output.spec));
            return copies;
        });
    }

  private:
    void record(const at::Tensor& given) {
        input_ = at::empty_like(given);
        auto graph = std::make_unique<at::cuda::CUDAGraph>();
        // Only this thread is recorded: others page-lock memory and record events meanwhile.
        graph->capture_begin({0, 0}, cudaStreamCaptureModeThreadLocal);
        try {
            outputs_ = model_->run(input_.const_data_ptr());
        } catch (const Error& problem) {
            end_capture_of(*graph);
            if (problem.kind() == ErrorKind::DeviceBroken || problem.kind() == ErrorKind::DeviceOutOfMemory) throw;
            throw Error(ErrorKind::Internal,
                        "the model '" + execution_.options().name +
                            "' could not be recorded as a CUDA graph: " + problem.what(),
                        "Run with --cuda-graphs off");
        }
        graph->capture_end();
        graph_ = std::move(graph);
    }

    // A stream that is still recording can do nothing else.
    static void end_capture_of(at::cuda::CUDAGraph& graph) {
        try {
            graph.capture_end();
        } catch (const std::exception&) {  // expected for a failed recording
        }
    }

    Execution execution_;
    std::unique_ptr<Model> model_;
    TensorSpec input_spec_;
    int before_ = 0;
    at::Tensor input_;  // the graph reads here, and writes below
    std::vector<DeviceTensor> outputs_;
    std::unique_ptr<at::cuda::CUDAGraph> graph_;
};

}  // namespace
#endif

std::unique_ptr<Model> with_graph_replay(std::unique_ptr<Model> model, [[maybe_unused]] const ModelOptions& options) {
#ifdef OFFRAMP_TORCH_HAS_CUDA
    if (options.cuda_graphs && options.device_index >= 0 && model->input().kind != InputKind::None)
        return std::make_unique<GraphReplay>(std::move(model), options);
#endif
    return model;
}

}  // namespace offramp
