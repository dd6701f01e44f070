// A slab's header, as left by another build's producer, a bug or a stray write.

#include "common/base/error.hpp"
#include "common/wire/slab_view.hpp"
#include "tests/fuzz/exact_copy.hpp"
#include "tests/fuzz/fuzz_target.hpp"
#include "tests/unit/dead_letters/filled_slab.hpp"

namespace offramp {
namespace {

void touch(const SlabContents& slab, std::span<const std::byte> memory) {
    for (const TensorView& tensor : slab.tensors) {
        expect(tensor.spec.varies() || tensor.bytes.size() == slab.samples.size() * tensor.spec.row_bytes(),
               "a tensor has a row for each sample");
        unsigned sum = 0;
        for (std::size_t row = 0; row < slab.samples.size(); ++row) {
            const auto bytes = tensor.row(row);
            expect(bytes.empty() || (bytes.data() >= memory.data() + sizeof(SlabHeader) &&
                                     bytes.data() + bytes.size() <= memory.data() + memory.size()),
                   "a sample is in its slab");
            expect(bytes.size() == tensor.row_spec(row).row_bytes(), "a sample has the bytes of its shape");
            for (const std::byte byte : bytes) sum += std::to_integer<unsigned>(byte);
        }
        expect(!(tensor.spec.describe() + std::to_string(sum)).empty(), "a tensor is described");
    }
    std::size_t rows = 0;
    for (const BatchRecord& batch : slab.batches) rows += batch.rows;
    expect(rows == slab.samples.size(), "every sample is of a batch");
    for (const SampleView& sample : slab.samples)
        expect(!sample.key.empty() && sample.key.size() <= kMaxKeyBytes, "a sample has a key");
}

void feed(std::span<const std::byte> input) {
    ExactCopy copy(input);
    static const SlabTicket ticket = FilledSlab().ticket;
    try {
        touch(SlabContents::read(copy.bytes(), FilledSlab::kNonce, ticket), copy.bytes());
    } catch (const ProtocolError& refused) {
        expect(std::string_view(refused.what()).starts_with("slab header: "),
               "a refusal names the fault in the header");
    }
}

}  // namespace

FuzzTarget make_slab_header() {
    return {feed, {as_seed(FilledSlab().memory), as_seed(FilledSlab(5, 9, FilledSlab::Shapes::Different).memory)}};
}

}  // namespace offramp
