#include "consumer/processors/vectors/sample_vectors.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

#include "common/app/settings/sections.hpp"
#include "common/base/error.hpp"
#include "common/base/finite_numbers.hpp"
#include "common/base/log.hpp"
#include "common/numerics/float16_bits.hpp"
#include "common/wire/output_forms.hpp"
#include "common/wire/tensor_spec.hpp"
#include "consumer/processors/raw/sample_array.hpp"

namespace offramp {
namespace {

// A shorter vector has no direction; the bound is that of PyTorch and sentence-transformers.
constexpr double kLeastLength = 1e-12;

// From here on, numbers round to infinity: they are nearer to 65536 than to the largest float16, 65504.
constexpr float kBeyondFloat16 = 65520;

}  // namespace

SampleVectors::SampleVectors(const CatalogueValues& settings, std::string_view processor)
    : processor_(processor),
      normalizes_(settings.on("normalize")),
      to_float16_(settings.text("vector-dtype") == "fp16"),
      truncate_dim_(static_cast<std::uint32_t>(settings.number("truncate-dim"))) {}

std::vector<VectorOutput> SampleVectors::outputs(const SlabContents& slab) const {
    std::vector<VectorOutput> fitting;
    std::string others;
    for (const TensorView& tensor : slab.tensors) {
        if (!is_vectors(tensor.spec)) {
            others += "; " + describe_output(tensor.spec);
            continue;
        }
        const auto numbers = static_cast<std::uint32_t>(tensor.spec.shape[1]);
        if (truncate_dim_ > numbers)
            throw ConfigError("--truncate-dim is " + std::to_string(truncate_dim_) + ", but " +
                                  describe_output(tensor.spec) + slab.origin() + " has only " +
                                  std::to_string(numbers) + " numbers",
                              "Give at most that number, or 0 for all");
        fitting.push_back({.tensor = &tensor, .dimensions = truncate_dim_ == 0 ? numbers : truncate_dim_});
    }
    if (fitting.empty())
        throw ConfigError("processor " + processor_ + " finds no vectors among the outputs" + slab.origin() +
                              ": expected float32, float16 or bfloat16 [N, D]" + others,
                          "Give it embeddings, or choose another --processor");
    return fitting;
}

std::span<const std::byte> SampleVectors::of(const VectorOutput& output, const SampleView& sample) {
    const std::span<const std::byte> stored = make(output, sample.row);
    is_finite_ = all_finite(stored, to_float16_ ? 2 : 4);
    if (!is_finite_ && ++unheld_ == 1)
        first_unheld_ = "the first: sample '" + sample.key + "', output '" + output.name() + "'";
    return stored;
}

void SampleVectors::report_unstored() {
    if (unheld_ > 0)
        spdlog::warn("{}: {} vectors have numbers that are infinite or NaN: their rows store NULL ({})", processor_,
                     unheld_, first_unheld_);
    unheld_ = 0;
}

std::span<const std::byte> SampleVectors::make(const VectorOutput& output, std::size_t row) {
    const TensorSpec& spec = output.tensor->spec;
    const std::byte* from = output.tensor->row(row).data();
    numbers_.resize(output.dimensions);
    double squares = 0;
    for (float& number : numbers_) {
        number = number_at(from, spec.dtype);
        squares += static_cast<double>(number) * static_cast<double>(number);
        from += spec.dtype.bytes();
    }
    if (normalizes_) {
        const double length = std::max(std::sqrt(squares), kLeastLength);
        for (float& number : numbers_) number = static_cast<float>(static_cast<double>(number) / length);
    }
    if (!to_float16_) return std::as_bytes(std::span(numbers_));
    const auto is_beyond = [](float number) { return std::isfinite(number) && std::abs(number) >= kBeyondFloat16; };
    if (std::ranges::any_of(numbers_, is_beyond) && ++overflowed_ == 1)
        spdlog::warn(
            "{}: vectors of output '{}' have numbers beyond 65504, which --vector-dtype fp16 makes infinite. Store "
            "them as fp32, or with --normalize",
            processor_, output.name());
    halves_.resize(numbers_.size());
    std::ranges::transform(numbers_, halves_.begin(),
                           [](float number) { return float16_bits(std::bit_cast<std::uint32_t>(number)); });
    return std::as_bytes(std::span(halves_));
}

ColumnsBeside::ColumnsBeside(const ProcessorOptions& options, std::string_view processor)
    : chunks_(options.input.chunk_tokens > 0) {
    if (gives_text_tables(options.input.source) && options.settings.text("vector-columns") != "none")
        columns_.emplace(options.input, processor, options.run_dir);
}

std::vector<std::string> ColumnsBeside::names() const {
    std::vector<std::string> names;
    if (columns()) names.insert(names.end(), {"id", "columns"});
    if (chunks()) names.insert(names.end(), {"chunk", "start_char", "end_char"});
    return names;
}

VectorOrigin ColumnsBeside::of(std::string_view key) const {
    VectorOrigin origin{.key = key};
    if (columns_) origin.beside = columns_->of(key);
    if (!chunks_) return origin;
    origin.chunk = chunk_named(key);
    origin.key = origin.chunk.text;
    return origin;
}

}  // namespace offramp
