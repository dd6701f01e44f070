// Makes samples whose numbers follow from their position, and runs the processor of the flags on them like one
// consumer. Other programs then read --output. Prints a line of JSON per output: name, type and shape.
#include <array>
#include <bit>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "common/app/settings/run_config.hpp"
#include "common/base/error.hpp"
#include "common/numerics/float16_bits.hpp"
#include "common/wire/slab_view.hpp"
#include "consumer/processors/processor.hpp"
#include "consumer/processors/results/outputs_of_run.hpp"

namespace offramp {
namespace {

constexpr std::uint32_t kSamples = 6;
constexpr std::uint32_t kEmptyRow = 2;
constexpr std::uint32_t kInSlab = 3;

TensorSpec spec_of(const std::string& name, DType dtype, std::vector<std::int64_t> shape) {
    shape.insert(shape.begin(), 1);
    return TensorSpec::contiguous(name, dtype, shape);
}

// Class scores, vectors and arrays of every type, and one whose last dimension is outermost in memory, like
// channels-last.
std::vector<TensorSpec> outputs() {
    std::vector<TensorSpec> specs{spec_of("scores", kFloat32, {5, 24, 36}), spec_of("vector32", kFloat32, {12}),
                                  spec_of("vector16", kFloat16, {12}), spec_of("vectorb16", kBFloat16, {12}),
                                  spec_of("single", kFloat32, {})};
    const std::pair<const char*, DType> kinds[] = {
        {"int8", kInt8},       {"int16", kInt16},      {"int32", kInt32},      {"int64", kInt64},
        {"uint8", kUInt8},     {"uint16", {1, 16, 1}}, {"uint32", {1, 32, 1}}, {"uint64", {1, 64, 1}},
        {"float64", kFloat64}, {"bool", kBool}};
    for (const auto& [name, dtype] : kinds) specs.push_back(spec_of(name, dtype, {2, 3, 4}));
    TensorSpec turned = spec_of("turned", kFloat32, {4, 5, 6});
    turned.strides = {120, 1, 24, 4};
    specs.push_back(turned);
    return specs;
}

template <class Number>
void put(std::byte* to, Number number) {
    std::memcpy(to, &number, sizeof number);
}

// The number at row-major index `i` of output `output` of sample `item`: an integer below 256, which every type holds
// exactly.
void put_value(std::byte* to, DType dtype, std::size_t item, std::size_t output, std::size_t i) {
    const std::uint64_t value = (item * 131 + output * 7 + i * 37 + i / 11) % 101;
    const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(value));
    if (dtype == kFloat16) return put(to, float16_bits(bits));
    if (dtype == kBFloat16) return put(to, static_cast<std::uint16_t>(bits >> 16U));
    if (dtype == kFloat32) return put(to, bits);
    if (dtype.code == 2) return put(to, static_cast<double>(value));
    if (dtype.code == 6) return put(to, static_cast<std::uint8_t>(value % 2));
    std::memcpy(to, &value, dtype.bytes());  // little endian
}

void fill(const TensorSpec& spec, std::span<std::byte> row, std::size_t item, std::size_t output) {
    std::array<std::int64_t, kMaxDims> at{};
    for (std::size_t i = 0; i * spec.dtype.bytes() < row.size(); ++i) {
        std::int64_t place = 0;
        for (std::size_t d = 1; d < spec.dims; ++d) place += at[d] * spec.strides[d];
        put_value(row.data() + static_cast<std::size_t>(place) * spec.dtype.bytes(), spec.dtype, item, output, i);
        for (std::size_t d = spec.dims; d-- > 1 && ++at[d] == spec.shape[d];) at[d] = 0;
    }
}

void process_slab(Processor& processor, const std::vector<TensorSpec>& specs, std::uint32_t first) {
    const auto layout = SlabLayout::make(specs, kInSlab, kInSlab, kMaxKeyBytes);
    const auto memory = std::make_unique<std::byte[]>(layout.slab_bytes);
    const std::span slab(memory.get(), layout.slab_bytes);
    const SlabTicket ticket{.epoch = 1, .slab = 0, .generation = first + 1, .attempt = 1};
    SlabWriter writer(slab, layout);
    writer.begin({.run_nonce = 1, .epoch = 1, .slab = 0, .generation = first + 1, .model = "made"});
    for (std::uint32_t item = first; item < first + kInSlab; ++item) {
        const std::string key = item == 1 ? "a folder/\xc3\xa9 \"quoted\".jpg" : "sample " + std::to_string(item);
        const SampleEntry sample{.item = item, .key = key, .empty = item == kEmptyRow};
        expect(writer.add_batch(0, item, {&sample, 1}), "the samples have room in their slab");
        for (std::size_t output = 0; output < specs.size(); ++output)
            fill(specs[output], writer.tensor_rows(output, writer.rows() - 1, 1), item, output);
    }
    writer.finish(1);
    processor.process(
        SlabContents::read(slab, 1, ticket), [] {}, [] { return true; });
}

int run(int argc, const char* const* argv) {
    const auto config = parse_run_config(argc, argv, "offramp-consumer");
    if (!config) return 0;
    const std::vector<TensorSpec> specs = outputs();
    {
        const auto processor = make_processor(config->processor, *config);
        for (std::uint32_t first = 0; first < kSamples; first += kInSlab) process_slab(*processor, specs, first);
    }
    finish_run(*config);
    for (const TensorSpec& spec : specs) {
        std::string shape;
        for (std::size_t d = 1; d < spec.dims; ++d) shape += (d > 1 ? "," : "") + std::to_string(spec.shape[d]);
        std::printf("{\"name\": \"%s\", \"dtype\": \"%s\", \"shape\": [%s]}\n", spec.name.c_str(),
                    to_string(spec.dtype).c_str(), shape.c_str());
    }
    return 0;
}

}  // namespace
}  // namespace offramp

int main(int argc, char** argv) {
    try {
        return offramp::run(argc, argv);
    } catch (const offramp::Error& problem) {
        std::fprintf(stderr, "%s\n", problem.what());
        return offramp::to_int(problem.kind());
    }
}
