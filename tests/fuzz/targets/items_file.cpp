// The hashes of items beside a checkpoint, torn or of another run. The first byte is the number of items. After a
// second byte 's' the checkpoint vouches for the file's hashes, to reach the code behind the check of their
// fingerprint.

#include "producer/runner/checkpoint/items_file.hpp"

#include <cstring>

#include "common/base/error.hpp"
#include "producer/runner/sources/source_items.hpp"
#include "tests/fuzz/fuzz_target.hpp"
#include "tests/fuzz/scratch_folder.hpp"

namespace offramp {
namespace {

constexpr std::size_t kHeader = 16;

// Those of the file's first items.
std::vector<std::uint64_t> hashes_in(std::span<const std::byte> file, std::uint64_t items) {
    std::vector<std::uint64_t> hashes(items);
    if (items > 0 && file.size() >= kHeader + hashes.size() * sizeof hashes[0])
        std::memcpy(hashes.data(), file.data() + kHeader, hashes.size() * sizeof hashes[0]);
    return hashes;
}

}  // namespace

FuzzTarget make_items_file() {
    const auto folder = std::make_shared<ScratchFolder>();
    const auto feed = [folder](std::span<const std::byte> input) {
        if (input.size() < 2) return;
        const auto items = static_cast<std::uint64_t>(input[0]);
        const bool is_vouched_for = input[1] == std::byte{'s'};
        const std::span<const std::byte> file = input.subspan(2);
        const std::vector<std::uint64_t> hashes = hashes_in(file, items);
        folder->write(kItemsFileName, file);
        Checkpoint checkpoint;
        checkpoint.identity.facts = {
            {CheckpointIdentity::kItems, std::to_string(items)},
            {CheckpointIdentity::kNamesOfItems, is_vouched_for ? source_fingerprint(hashes) : "another"}};
        try {
            const std::vector<std::uint64_t> read = read_items_file(folder->path(), checkpoint);
            expect(is_vouched_for && file.size() >= kHeader + items * sizeof read[0] && read == hashes,
                   "hashes are those that the checkpoint vouches for");
        } catch (const Error& refused) {
            expect(refused.kind() == ErrorKind::BadInput, "a refusal is one of input");
        }
    };
    std::string whole = "offritem";
    whole += std::string("\1\0\0\0\0\0\0\0", 8) + "hash of1hash of2";
    return {feed, {"\2s" + whole, "\2-" + whole, "\3s" + whole}};
}

}  // namespace offramp
