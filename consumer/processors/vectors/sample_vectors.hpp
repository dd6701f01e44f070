#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/app/settings/catalogue_values.hpp"
#include "common/wire/slab_view.hpp"

namespace offramp {

// An output that holds one vector a sample: float32, float16 or bfloat16 [N, D]. Borrows the slab.
struct VectorOutput {
    const TensorView* tensor = nullptr;
    std::uint32_t dimensions = 0;  // of what is stored: after --truncate-dim

    const std::string& name() const { return tensor->spec.name; }
};

// Makes of each sample's vector what is stored: the first --truncate-dim numbers, with --normalize brought to length 1
// (a vector of length 0 stays as it is), in --vector-dtype. Owns its scratch memory. Thread: one.
class SampleVectors {
  public:
    // `processor`: who asks, for errors.
    SampleVectors(const CatalogueValues& settings, std::string_view processor);

    // The outputs of a slab that fit. Errors: ConfigError if there is none, with the reason for each, and when one is
    // shorter than --truncate-dim.
    std::vector<VectorOutput> outputs(const SlabContents& slab) const;
    // The stored bytes of one sample's vector, little endian; valid until the next call.
    std::span<const std::byte> of(const VectorOutput& output, const SampleView& sample);
    // Whether all numbers of that vector are finite, as they are stored. Tables have NULL for another one: readers take
    // infinite numbers and NaN for numbers, and pgvector does not hold them.
    bool is_finite() const { return is_finite_; }
    // Warns of those since the last call that were not.
    void report_unstored();

    // Vectors so far with a finite number that became infinite as a float16. The first is warned of.
    std::uint64_t overflowed() const { return overflowed_; }

    bool normalizes() const { return normalizes_; }
    // "float32" or "float16".
    std::string_view dtype() const { return to_float16_ ? "float16" : "float32"; }

  private:
    std::span<const std::byte> make(const VectorOutput& output, std::size_t row);

    std::string processor_;
    bool normalizes_, to_float16_;
    std::uint32_t truncate_dim_;
    std::uint64_t overflowed_ = 0;
    bool is_finite_ = true;
    std::uint64_t unheld_ = 0;
    std::string first_unheld_;
    std::vector<float> numbers_;
    std::vector<std::uint16_t> halves_;
};

}  // namespace offramp
