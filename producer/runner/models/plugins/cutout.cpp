#include <ATen/ops/upsample_bilinear2d.h>

#include <iterator>

#include "common/base/error.hpp"
#include "producer/runner/models/convolution.hpp"
#include "producer/runner/models/execution.hpp"
#include "producer/runner/models/weights.hpp"

// A small encoder-decoder that separates objects from their background: launch/demo/network.py in C++, with its
// state-dict names and the weights from launch/demo/train.py. Batch normalisation was folded in when they were written.
namespace offramp {
namespace {

constexpr std::int64_t kClasses = 2;
constexpr std::int64_t kCoarsest = 32;  // pixels of the image per pixel of the deepest layer
constexpr std::int64_t kUpsampleFactor = 2;

struct Layer {
    std::int64_t in, out, kernel, stride;
};
// The output of a layer of stride 1 is added to the decoder's at the same size.
constexpr Layer kEncoder[] = {{3, 16, 3, 2},  {16, 16, 3, 1}, {16, 32, 3, 2}, {32, 32, 3, 1},  {32, 64, 3, 2},
                              {64, 64, 3, 1}, {64, 96, 3, 2}, {96, 96, 3, 1}, {96, 112, 3, 2}, {112, 112, 3, 1}};
constexpr Layer kDecoder[] = {{112, 96, 1, 1}, {96, 64, 3, 1}, {64, 32, 3, 1}, {32, 16, 3, 1}, {16, 16, 3, 1}};

ConvolutionPlan plan(const std::string& name, const Layer& layer) {
    return {.name = name,
            .norm = "",
            .in = layer.in,
            .out = layer.out,
            .kernel = layer.kernel,
            .stride = layer.stride,
            .padding = layer.kernel / 2};
}

std::vector<ConvolutionPlan> plan_network() {
    std::vector<ConvolutionPlan> plans;
    for (const Layer& layer : kEncoder) plans.push_back(plan("encoder." + std::to_string(plans.size()), layer));
    for (const Layer& layer : kDecoder)
        plans.push_back(plan("decoder." + std::to_string(plans.size() - std::size(kEncoder)), layer));
    plans.push_back(plan("head", {std::rbegin(kDecoder)->out, kClasses, 1, 1}));
    return plans;
}

at::Tensor enlarged(const at::Tensor& x) {
    return at::upsample_bilinear2d(x, {kUpsampleFactor * x.size(2), kUpsampleFactor * x.size(3)},
                                   /*align_corners=*/false);
}

class Cutout final : public Model {
  public:
    explicit Cutout(const ModelOptions& options) : execution_(options) {
        if (options.image_size < kCoarsest || options.image_size % kCoarsest != 0)
            throw ConfigError("the image size " + std::to_string(options.image_size) + " is not a multiple of " +
                                  std::to_string(kCoarsest) + ", which the model 'cutout' needs",
                              "Give --image-size " + std::to_string((options.image_size / kCoarsest + 1) * kCoarsest) +
                                  "; it was trained for 160 to 256");
        const std::vector<ConvolutionPlan> plans = plan_network();
        std::vector<TensorDemand> demands;
        for (const ConvolutionPlan& convolution : plans) append_demands(convolution, demands);
        parameters_ = count_parameters(demands);
        execution_.in([&] {
            const Weights weights = load_weights(options, demands, [](std::string_view) { return false; });
            for (const ConvolutionPlan& convolution : plans) {
                layers_.push_back(fold(convolution, weights));
                place(layers_.back(), execution_);
            }
        });
    }

    std::string description() const override {
        return "cutout, " + std::to_string(parameters_) + " parameters, " + describe_weights(execution_.options());
    }
    std::uint64_t parameters() const override { return parameters_; }
    bool random_weights() const override { return execution_.options().weights.empty(); }
    std::uint32_t upsample_factor() const override { return stays_small() ? std::uint32_t{kUpsampleFactor} : 1U; }

    ModelInput input() const override {
        const std::int64_t shape[] = {execution_.options().batch, 3, image_side(), image_side()};
        return {.kind = InputKind::Image, .tensor = TensorSpec::contiguous("image", kFloat32, shape)};
    }

    std::vector<TensorSpec> outputs() const override {
        const std::int64_t side = stays_small() ? image_side() / kUpsampleFactor : image_side();
        const std::int64_t shape[] = {execution_.options().batch, kClasses, side, side};
        return {TensorSpec::contiguous("logits", kFloat32, shape)};
    }

    std::vector<DeviceTensor> run(const void* input) override {
        return execution_.in([&] {
            const at::Tensor image = execution_.view(input, this->input().tensor);
            at::Tensor logits = small_logits(image).to(at::kFloat).contiguous();
            if (!stays_small()) logits = enlarged(logits).contiguous();
            return std::vector{Execution::hand_out(std::move(logits), outputs().front())};
        });
    }

  private:
    bool stays_small() const { return execution_.options().leave_out_enlargement; }
    std::int64_t image_side() const { return execution_.options().image_size; }

    at::Tensor small_logits(const at::Tensor& image) const {
        at::Tensor x = image.to(image.options().dtype(execution_.compute_type()), /*non_blocking=*/false,
                                /*copy=*/false, execution_.memory_format());
        std::vector<at::Tensor> kept;
        auto layer = layers_.begin();
        for (const Layer& shape : kEncoder) {
            x = convolve_relu(x, *layer++, execution_);
            if (shape.stride == 1) kept.push_back(x);
        }
        kept.pop_back();  // the decoder begins with the deepest
        x = convolve_relu(x, *layer++, execution_);
        for (; !kept.empty(); kept.pop_back()) x = convolve_relu(enlarged(x).add_(kept.back()), *layer++, execution_);
        return convolve(x, *layer);
    }

    Execution execution_;
    std::uint64_t parameters_ = 0;
    std::vector<Convolution> layers_;  // in the order of plan_network()
};

}  // namespace

std::unique_ptr<Model> make_cutout(const ModelOptions& options) { return std::make_unique<Cutout>(options); }

}  // namespace offramp
