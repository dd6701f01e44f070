#include "producer/runner/models/weights.hpp"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>

#include "common/base/error.hpp"
#include "producer/runner/models/weights_file.hpp"

namespace offramp {
namespace {

constexpr std::size_t kNamesListed = 4;

std::uint64_t elements(const TensorDemand& demand) {
    std::uint64_t count = 1;
    for (const std::int64_t size : demand.shape) count *= static_cast<std::uint64_t>(size);
    return count;
}

std::string describe(const TensorDemand& demand) {
    return offramp::describe(StoredTensor{.dtype = "F32", .shape = demand.shape, .bytes = {}});
}

// Steele, Lea, Flood: SplitMix64. A counter and integer arithmetic only: the same numbers on every machine.
std::uint64_t next_random(std::uint64_t& state) {
    std::uint64_t z = state += 0x9e3779b97f4a7c15ULL;
    z = (z ^ (z >> 30U)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27U)) * 0x94d049bb133111ebULL;
    return z ^ (z >> 31U);
}

// FNV-1a: a tensor's numbers depend on its name, not on its place in a list.
std::uint64_t hash(std::string_view name) {
    std::uint64_t value = 0xcbf29ce484222325ULL;
    for (const char c : name) value = (value ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
    return value;
}

at::Tensor fill(const TensorDemand& demand, std::uint64_t seed) {
    at::Tensor tensor = at::empty(demand.shape, at::kFloat);
    float* const values = tensor.mutable_data_ptr<float>();
    std::uint64_t state = hash(demand.name) ^ (seed * 0x9e3779b97f4a7c15ULL);
    for (std::uint64_t i = 0, count = elements(demand); i < count; ++i) {
        const auto signed_24_bits = static_cast<std::int32_t>(next_random(state) >> 40U) - (1 << 23);
        const float offset = static_cast<float>(signed_24_bits) * 0x1p-23F * demand.initializer.bound;
        values[i] = demand.initializer.centre + offset;
    }
    return tensor;
}

std::optional<at::ScalarType> float_type(std::string_view dtype) {
    if (dtype == "F32") return at::kFloat;
    if (dtype == "F16") return at::kHalf;
    if (dtype == "BF16") return at::kBFloat16;
    if (dtype == "F64") return at::kDouble;
    return std::nullopt;
}

at::Tensor copy_of(const StoredTensor& stored, at::ScalarType type) {
    at::Tensor tensor = at::empty(stored.shape, type);
    if (!stored.bytes.empty()) std::memcpy(tensor.mutable_data_ptr(), stored.bytes.data(), stored.bytes.size());
    return tensor.to(at::kFloat);
}

// Collects all faults of a file for a single error.
class Complaints {
  public:
    void add(const std::string& complaint) {
        if (++count_ <= kNamesListed) text_ += (text_.empty() ? "" : "; ") + complaint;
    }
    std::size_t count() const { return count_; }
    std::string text() const {
        return count_ <= kNamesListed ? text_ : text_ + "; and " + std::to_string(count_ - kNamesListed) + " more";
    }

  private:
    std::size_t count_ = 0;
    std::string text_;
};

Weights read(const std::string& path, std::span<const TensorDemand> demands,
             const std::function<bool(std::string_view)>& is_ignored) {
    const SafetensorsFile file = open_weights(path);
    const std::string wrapper = wrapper_of(file.tensors());
    Weights weights;
    Complaints missing;
    Complaints wrong;
    Complaints unexpected;
    for (const TensorDemand& demand : demands) {
        const StoredTensor* const stored = file.find(wrapper + demand.name);
        if (stored == nullptr) {
            missing.add("'" + demand.name + "' " + describe(demand));
            continue;
        }
        const std::optional<at::ScalarType> type = float_type(stored->dtype);
        if (!type || stored->shape != demand.shape)
            wrong.add("'" + demand.name + "': expected " + describe(demand) + ", found " + offramp::describe(*stored));
        else
            weights.emplace(demand.name, copy_of(*stored, *type));
    }
    for (const auto& [whole_name, stored] : file.tensors()) {
        const std::string_view name = std::string_view(whole_name).substr(wrapper.size());
        const bool wanted =
            std::ranges::any_of(demands, [&](const TensorDemand& demand) { return demand.name == name; });
        if (!wanted && !is_ignored(name)) unexpected.add("'" + whole_name + "' " + offramp::describe(stored));
    }
    if (missing.count() + wrong.count() + unexpected.count() == 0) return weights;
    std::string text = "the weights '" + path + "' do not fit the model";
    if (wrong.count() != 0) text += ": " + std::to_string(wrong.count()) + " of another shape or type: " + wrong.text();
    if (missing.count() != 0) text += ": " + std::to_string(missing.count()) + " missing: " + missing.text();
    if (unexpected.count() != 0)
        text += ": " + std::to_string(unexpected.count()) + " unexpected: " + unexpected.text();
    throw ConfigError(text, "launch/guide/runner.md shows how to export them", ErrorKind::BadInput);
}

}  // namespace

Initializer kaiming(std::int64_t fan_in) {
    return {.centre = 0.0F, .bound = static_cast<float>(std::sqrt(6.0 / static_cast<double>(fan_in)))};
}

std::uint64_t count_parameters(std::span<const TensorDemand> demands) {
    std::uint64_t count = 0;
    for (const TensorDemand& demand : demands)
        if (demand.parameter) count += elements(demand);
    return count;
}

Weights load_weights(const ModelOptions& options, std::span<const TensorDemand> demands,
                     const std::function<bool(std::string_view)>& is_ignored) {
    if (!options.weights.empty()) return read(options.weights, demands, is_ignored);
    Weights weights;
    for (const TensorDemand& demand : demands) weights.emplace(demand.name, fill(demand, options.seed));
    return weights;
}

std::string describe_weights(const ModelOptions& options) {
    return options.weights.empty() ? "random weights (seed " + std::to_string(options.seed) + ")"
                                   : "weights from " + options.weights;
}

}  // namespace offramp
