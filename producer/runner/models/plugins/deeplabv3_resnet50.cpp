#include <ATen/ops/cat.h>
#include <ATen/ops/max_pool2d.h>
#include <ATen/ops/upsample_bilinear2d.h>

#include "common/base/error.hpp"
#include "producer/runner/models/convolution.hpp"
#include "producer/runner/models/execution.hpp"
#include "producer/runner/models/weights.hpp"

// DeepLabV3 with a ResNet-50 backbone of output stride 8, as built by torchvision 0.26 (deeplabv3_resnet50, 21 classes,
// without the auxiliary head), with torchvision's state-dict names. Batch normalisation is folded into the convolutions
// at load time.
namespace offramp {
namespace {

constexpr std::int64_t kClasses = 21;
constexpr std::int64_t kSmallestImage = 8;
constexpr std::int64_t kOutputStride = 8;  // pixels of the image per pixel of the backbone
constexpr std::int64_t kPooledWidth = 256;
constexpr std::int64_t kPyramidWidth = 4 * 256;  // the four branches of the pyramid that keep their resolution

struct Block {
    std::string name;
    bool downsamples = false;
};

struct Network {
    std::vector<ConvolutionPlan> convolutions;
    std::vector<Block> blocks;
};

// Random weights only: each residual branch adds a quarter of the variance, so that 16 blocks stay within one
// order of magnitude.
constexpr float kBranchGain = 0.5F;

// On an H100, cuDNN timed its kernels in TF32 for 22 s. The three widely dilated convolutions took 17.8 s of that, and
// those without a fused ReLU, with that of the pictures, 3.3 s; none of them gained more than 0.1 % of a batch's time.
constexpr bool kTimed = false;

void plan_backbone(Network& network) {
    struct Stage {
        std::int64_t width, blocks, stride, dilation;
    };
    // Layers 3 and 4 keep their resolution: dilation replaces the stride.
    static constexpr Stage kStages[] = {{64, 3, 1, 1}, {128, 4, 2, 1}, {256, 6, 1, 2}, {512, 3, 1, 4}};
    auto& plans = network.convolutions;
    plans.push_back({.name = "backbone.conv1",
                     .norm = "backbone.bn1",
                     .in = 3,
                     .out = 64,
                     .kernel = 7,
                     .stride = 2,
                     .padding = 3,
                     .kernels_timed = kTimed});
    std::int64_t in = 64;
    std::int64_t previous_dilation = 1;
    for (std::size_t s = 0; s < std::size(kStages); ++s) {
        const Stage& stage = kStages[s];
        for (std::int64_t b = 0; b < stage.blocks; ++b) {
            const std::string name = "backbone.layer" + std::to_string(s + 1) + "." + std::to_string(b) + ".";
            const std::int64_t stride = b == 0 ? stage.stride : 1;
            // torchvision gives the first block of a layer the dilation of the layer before.
            const std::int64_t dilation = b == 0 ? previous_dilation : stage.dilation;
            const std::int64_t out = 4 * stage.width;
            plans.push_back({.name = name + "conv1", .norm = name + "bn1", .in = in, .out = stage.width});
            plans.push_back({.name = name + "conv2",
                             .norm = name + "bn2",
                             .in = stage.width,
                             .out = stage.width,
                             .kernel = 3,
                             .stride = stride,
                             .padding = dilation,
                             .dilation = dilation});
            plans.push_back(
                {.name = name + "conv3", .norm = name + "bn3", .in = stage.width, .out = out, .gain = kBranchGain});
            if (b == 0)
                plans.push_back({.name = name + "downsample.0",
                                 .norm = name + "downsample.1",
                                 .in = in,
                                 .out = out,
                                 .stride = stride,
                                 .kernels_timed = kTimed});
            network.blocks.push_back({.name = name, .downsamples = b == 0});
            in = out;
        }
        previous_dilation = stage.dilation;
    }
}

void plan_classifier(Network& network) {
    auto& plans = network.convolutions;
    const std::string pyramid = "classifier.0.convs.";
    plans.push_back({.name = pyramid + "0.0", .norm = pyramid + "0.1", .in = 2048, .out = 256});
    for (const std::int64_t branch : {1, 2, 3}) {
        const std::string name = pyramid + std::to_string(branch);
        plans.push_back({.name = name + ".0",
                         .norm = name + ".1",
                         .in = 2048,
                         .out = 256,
                         .kernel = 3,
                         .padding = 12 * branch,
                         .dilation = 12 * branch,
                         .kernels_timed = kTimed});
    }
    plans.push_back({.name = pyramid + "4.1", .norm = pyramid + "4.2", .in = 2048, .out = 256});
    plans.push_back({.name = "classifier.0.project.0",
                     .norm = "classifier.0.project.1",
                     .in = kPyramidWidth + kPooledWidth,
                     .out = 256});
    plans.push_back({.name = "classifier.1", .norm = "classifier.2", .in = 256, .out = 256, .kernel = 3, .padding = 1});
    plans.push_back({.name = "classifier.4", .norm = "", .in = 256, .out = kClasses, .kernels_timed = kTimed});
}

Network plan_network() {
    Network network;
    plan_backbone(network);
    plan_classifier(network);
    return network;
}

// Tensors in torchvision's state dict beyond the network: the training head, and counters of training steps.
bool is_training_only(std::string_view name) {
    return name.starts_with("aux_classifier.") || name.ends_with(".num_batches_tracked");
}

class DeepLabV3 final : public Model {
  public:
    explicit DeepLabV3(const ModelOptions& options) : execution_(options) {
        if (options.image_size < kSmallestImage)
            throw ConfigError("the image size " + std::to_string(options.image_size) + " is too small",
                              "Give --image-size " + std::to_string(kSmallestImage) + " or more");
        // torchvision enlarges to the image's size, which is a whole factor only then.
        if (options.leave_out_enlargement && options.image_size % kOutputStride != 0)
            throw ConfigError("the image size " + std::to_string(options.image_size) + " is not a multiple of " +
                                  std::to_string(kOutputStride) +
                                  ", so that the logits cannot be enlarged by a whole factor afterwards",
                              "Give --image-size " +
                                  std::to_string(options.image_size / kOutputStride * kOutputStride) + " or " +
                                  std::to_string((options.image_size / kOutputStride + 1) * kOutputStride) +
                                  ", or use --transform none or cast");
        const Network network = plan_network();
        std::vector<TensorDemand> demands;
        for (const ConvolutionPlan& plan : network.convolutions) append_demands(plan, demands);
        parameters_ = count_parameters(demands);
        blocks_ = network.blocks;
        execution_.in([&] {
            const Weights weights = load_weights(options, demands, is_training_only);
            for (const ConvolutionPlan& plan : network.convolutions)
                convolutions_.emplace(plan.name, fold(plan, weights));
            arrange();
        });
    }

    std::string description() const override {
        return "deeplabv3-resnet50, " + std::to_string(parameters_) + " parameters, " +
               describe_weights(execution_.options());
    }
    std::uint64_t parameters() const override { return parameters_; }
    bool random_weights() const override { return execution_.options().weights.empty(); }
    std::uint32_t upsample_factor() const override { return stays_small() ? std::uint32_t{kOutputStride} : 1U; }

    ModelInput input() const override {
        const std::int64_t shape[] = {execution_.options().batch, 3, image_side(), image_side()};
        return {.kind = InputKind::Image, .tensor = TensorSpec::contiguous("image", kFloat32, shape)};
    }

    std::vector<TensorSpec> outputs() const override {
        const std::int64_t batch = execution_.options().batch;
        const std::int64_t side = stays_small() ? image_side() / kOutputStride : image_side();
        const std::int64_t shape[] = {batch, kClasses, side, side};
        return {TensorSpec::contiguous("logits", kFloat32, shape)};
    }

    std::vector<DeviceTensor> run(const void* input) override {
        return execution_.in([&] {
            const at::Tensor image = execution_.view(input, this->input().tensor);
            // Lay out and widen the small logits, not the large ones: 22 MB instead of 1.4 GB for a batch of 64 at 512.
            at::Tensor logits = low_resolution_logits(image).to(at::kFloat).contiguous();
            const TensorSpec spec = outputs().front();
            if (stays_small())  // with a side of one pixel, channels-last strides also count as contiguous
                logits = logits.as_strided(at::IntArrayRef(spec.shape.data(), spec.dims),
                                           at::IntArrayRef(spec.strides.data(), spec.dims));
            else
                logits =
                    at::upsample_bilinear2d(logits, {image_side(), image_side()}, /*align_corners=*/false).contiguous();
            return std::vector{Execution::hand_out(std::move(logits), spec)};
        });
    }

  private:
    // Joins biases that are added, and places all convolutions.
    void arrange() {
        for (const Block& block : blocks_)
            if (block.downsamples)
                move_bias(convolutions_.at(block.name + "downsample.0"), convolutions_.at(block.name + "conv3"));
        const Convolution& project = convolution("classifier.0.project.0");
        projection_of_pyramid_ = {.weight = project.weight.narrow(1, 0, kPyramidWidth), .bias = project.bias};
        projection_of_pooled_ = {.weight = project.weight.narrow(1, kPyramidWidth, kPooledWidth), .bias = {}};
        convolutions_.erase("classifier.0.project.0");
        for (auto& [name, c] : convolutions_) put_in_place(c);
        put_in_place(projection_of_pyramid_);
        put_in_place(projection_of_pooled_);
    }

    // In fp32 cuDNN's heuristics name kernels as fast as those found by timing, which takes 12 s.
    void put_in_place(Convolution& c) const {
        c.kernels_timed = c.kernels_timed && execution_.options().precision != "fp32";
        place(c, execution_);
    }

    bool stays_small() const { return execution_.options().leave_out_enlargement; }
    std::int64_t image_side() const { return execution_.options().image_size; }

    const Convolution& convolution(std::string_view name) const { return convolutions_.find(name)->second; }

    at::Tensor relu_of(const at::Tensor& x, std::string_view name) const {
        return convolve_relu(x, convolution(name), execution_);
    }

    at::Tensor backbone(const at::Tensor& image) const {
        at::Tensor x = image.to(image.options().dtype(execution_.compute_type()), /*non_blocking=*/false,
                                /*copy=*/false, execution_.memory_format());
        x = at::max_pool2d(relu_of(x, "backbone.conv1"), {3, 3}, {2, 2}, {1, 1});
        for (const Block& block : blocks_) {
            const at::Tensor skip = block.downsamples ? convolve(x, convolution(block.name + "downsample.0")) : x;
            const at::Tensor narrow = relu_of(x, block.name + "conv1");
            const at::Tensor spread = relu_of(narrow, block.name + "conv2");
            x = convolve_add_relu(spread, convolution(block.name + "conv3"), skip, execution_);
        }
        return x;
    }

    at::Tensor low_resolution_logits(const at::Tensor& image) const {
        const at::Tensor features = backbone(image);
        std::vector<at::Tensor> pyramid;
        for (const char* branch : {"0.0", "1.0", "2.0", "3.0"})
            pyramid.push_back(relu_of(features, std::string("classifier.0.convs.") + branch));
        const at::Tensor pooled = relu_of(features.mean({2, 3}, /*keepdim=*/true), "classifier.0.convs.4.1");
        // The projection of the pooled branch is one vector per sample: it is computed once and added everywhere.
        // torchvision enlarges the pooled pixel first and projects it again at every place.
        const at::Tensor everywhere = convolve(pooled, projection_of_pooled_)
                                          .expand({-1, -1, features.size(2), features.size(3)})
                                          .contiguous(execution_.memory_format());
        const at::Tensor projected =
            convolve_add_relu(at::cat(pyramid, 1), projection_of_pyramid_, everywhere, execution_);
        return convolve(relu_of(projected, "classifier.1"), convolution("classifier.4"));
    }

    Execution execution_;
    std::uint64_t parameters_ = 0;
    Convolutions convolutions_;
    Convolution projection_of_pyramid_;
    Convolution projection_of_pooled_;
    std::vector<Block> blocks_;
};

}  // namespace

std::unique_ptr<Model> make_deeplabv3_resnet50(const ModelOptions& options) {
    return std::make_unique<DeepLabV3>(options);
}

}  // namespace offramp
