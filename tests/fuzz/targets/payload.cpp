// A dead letter's payload: a .safetensors file with the project's metadata.

#include "common/dead_letters/payload_file.hpp"

#include "common/base/error.hpp"
#include "tests/fuzz/fuzz_target.hpp"
#include "tests/fuzz/scratch_folder.hpp"
#include "tests/unit/dead_letters/filled_slab.hpp"

namespace offramp {
namespace {

void touch(const SlabContents& slab) {
    for (const TensorView& tensor : slab.tensors) {
        unsigned sum = 0;
        for (std::size_t row = 0; row < slab.samples.size(); ++row)
            for (const std::byte byte : tensor.row(row)) sum += std::to_integer<unsigned>(byte);
        expect(!(tensor.spec.describe() + std::to_string(sum)).empty(), "a tensor is described");
    }
}

}  // namespace

FuzzTarget make_payload() {
    const auto folder = std::make_shared<ScratchFolder>();
    const auto feed = [folder](std::span<const std::byte> input) {
        const std::string path = folder->write("payload.safetensors", input);
        try {
            touch(PayloadFile(path).slab());
        } catch (const Error&) {
        }
        try {
            read_payload_metadata(std::string(as_text(input)));
        } catch (const ProtocolError&) {
        }
    };
    std::vector<std::string> seeds;
    for (const auto shapes : {FilledSlab::Shapes::Equal, FilledSlab::Shapes::Different}) {
        const FilledSlab filled(5, 9, shapes);
        const std::string path = folder->write("seed.safetensors", {});
        write_payload(path, filled.contents());
        std::ifstream file(path, std::ios::binary);
        seeds.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
        seeds.push_back(payload_metadata(filled.contents()));
    }
    return {feed, seeds};
}

}  // namespace offramp
