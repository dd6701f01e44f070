#include <ATen/ops/_addmm_activation.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <ATen/TensorOperators.h>

#include <cmath>

#include "common/base/error.hpp"
#include "producer/runner/models/execution.hpp"
#include "producer/runner/models/graph_replay.hpp"
#include "producer/runner/models/weights.hpp"

// A small transformer encoder, an example of a small output: tokens [B, 128, 256] in, one embedding [B, 1024] per
// sample out. The layers and their names are those of torch.nn.TransformerEncoder (norm_first, GELU).
namespace offramp {
namespace {

constexpr std::int64_t kTokens = 128;
constexpr std::int64_t kWidth = 256;
constexpr std::int64_t kHeads = 8;
constexpr std::int64_t kInner = 1024;
constexpr std::int64_t kLayers = 4;
constexpr std::int64_t kEmbedding = 1024;

// PyTorch's initialisation of a linear layer: keeps activations near one through residual layers.
Initializer linear_initializer(std::int64_t fan_in) {
    return {.centre = 0.0F, .bound = static_cast<float>(1.0 / std::sqrt(static_cast<double>(fan_in)))};
}

std::vector<TensorDemand> demands() {
    std::vector<TensorDemand> all;
    const auto linear = [&all](const std::string& weight, const std::string& bias, std::int64_t in, std::int64_t out) {
        all.push_back({.name = weight, .shape = {out, in}, .initializer = linear_initializer(in)});
        all.push_back({.name = bias, .shape = {out}, .initializer = linear_initializer(in)});
    };
    const auto norm = [&all](const std::string& name) {
        all.push_back({.name = name + ".weight", .shape = {kWidth}, .initializer = {.centre = 1.0F}});
        all.push_back({.name = name + ".bias", .shape = {kWidth}, .initializer = {}});
    };
    all.push_back({.name = "position", .shape = {kTokens, kWidth}, .initializer = {.bound = 0.1F}});
    for (std::int64_t i = 0; i < kLayers; ++i) {
        const std::string layer = "layers." + std::to_string(i) + ".";
        linear(layer + "self_attn.in_proj_weight", layer + "self_attn.in_proj_bias", kWidth, 3 * kWidth);
        linear(layer + "self_attn.out_proj.weight", layer + "self_attn.out_proj.bias", kWidth, kWidth);
        linear(layer + "linear1.weight", layer + "linear1.bias", kWidth, kInner);
        linear(layer + "linear2.weight", layer + "linear2.bias", kInner, kWidth);
        norm(layer + "norm1");
        norm(layer + "norm2");
    }
    norm("norm");
    linear("project.weight", "project.bias", kWidth, kEmbedding);
    return all;
}

class Encoder final : public Model {
  public:
    explicit Encoder(const ModelOptions& options) : execution_(options) {
        if (options.memory_format != "contiguous")
            throw ConfigError(
                "the model 'encoder' has no images and so no memory format '" + options.memory_format + "'",
                "Use --memory-format contiguous");
        const std::vector<TensorDemand> wanted = demands();
        parameters_ = count_parameters(wanted);
        execution_.in([&] {
            for (auto& [name, tensor] : load_weights(options, wanted, [](std::string_view) { return false; }))
                weights_.emplace(name, tensor.to(execution_.device(), execution_.compute_type()));
        });
    }

    std::string description() const override {
        return "encoder, " + std::to_string(parameters_) + " parameters, " + describe_weights(execution_.options());
    }
    std::uint64_t parameters() const override { return parameters_; }
    bool random_weights() const override { return execution_.options().weights.empty(); }

    ModelInput input() const override {
        const std::int64_t shape[] = {execution_.options().batch, kTokens, kWidth};
        return {.kind = InputKind::Feature, .tensor = TensorSpec::contiguous("tokens", kFloat32, shape)};
    }

    std::vector<TensorSpec> outputs() const override {
        const std::int64_t shape[] = {execution_.options().batch, kEmbedding};
        return {TensorSpec::contiguous("embedding", kFloat32, shape)};
    }

    std::vector<DeviceTensor> run(const void* input) override {
        return execution_.in([&] {
            at::Tensor x =
                execution_.view(input, this->input().tensor).to(execution_.compute_type()) + weight("position");
            for (std::int64_t i = 0; i < kLayers; ++i) x = layer(x, "layers." + std::to_string(i) + ".");
            x = norm(x, "norm").mean(1);
            at::Tensor embedding = at::linear(x, weight("project.weight"), weight("project.bias")).to(at::kFloat);
            return std::vector{Execution::hand_out(std::move(embedding), outputs().front())};
        });
    }

  private:
    const at::Tensor& weight(std::string_view name) const { return weights_.find(name)->second; }

    at::Tensor norm(const at::Tensor& x, const std::string& name) const {
        return at::layer_norm(x, {kWidth}, weight(name + ".weight"), weight(name + ".bias"));
    }

    at::Tensor attention(const at::Tensor& x, const std::string& name) const {
        const std::int64_t batch = x.size(0);
        const at::Tensor qkv = at::linear(x, weight(name + "in_proj_weight"), weight(name + "in_proj_bias"))
                                   .view({batch, kTokens, 3, kHeads, kWidth / kHeads})
                                   .permute({2, 0, 3, 1, 4});
        const at::Tensor mixed = at::scaled_dot_product_attention(qkv[0], qkv[1], qkv[2]);
        return at::linear(mixed.transpose(1, 2).reshape({batch, kTokens, kWidth}), weight(name + "out_proj.weight"),
                          weight(name + "out_proj.bias"));
    }

    // In half precision on a GPU the GELU is the product's epilogue, which saves writing and reading 16 MiB per layer.
    // It is GELU's tanh form, off by 5e-4 at most: below the resolution of bfloat16 there. torch.nn.TransformerEncoder
    // does the same in inference.
    at::Tensor widened(const at::Tensor& x, const std::string& name) const {
        const at::Tensor& matrix = weight(name + "linear1.weight");
        const at::Tensor& bias = weight(name + "linear1.bias");
        if (!x.is_cuda() || x.scalar_type() == at::kFloat) return at::gelu(at::linear(x, matrix, bias));
        return at::_addmm_activation(bias, x.reshape({-1, kWidth}), matrix.t(), 1, 1, /*use_gelu=*/true)
            .view({x.size(0), kTokens, kInner});
    }

    at::Tensor layer(const at::Tensor& x, const std::string& name) const {
        const at::Tensor attended = x + attention(norm(x, name + "norm1"), name + "self_attn.");
        const at::Tensor wide = widened(norm(attended, name + "norm2"), name);
        return attended + at::linear(wide, weight(name + "linear2.weight"), weight(name + "linear2.bias"));
    }

    Execution execution_;
    std::uint64_t parameters_ = 0;
    Weights weights_;
};

}  // namespace

std::unique_ptr<Model> make_encoder(const ModelOptions& options) {
    return with_graph_replay(std::make_unique<Encoder>(options), options);
}

}  // namespace offramp
