// The index of a job's list, torn or of another list. After a first byte 's' it has the facts of the list and a good
// hash, to reach the code behind those checks.

#include "common/app/images/list_index.hpp"

#include <cstring>

#include "common/base/error.hpp"
#include "tests/fuzz/fuzz_target.hpp"
#include "tests/fuzz/scratch_folder.hpp"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace offramp {
namespace {

constexpr std::size_t kFacts = 16, kHeader = 72, kSeal = 8, kListBytes = 60;
constexpr const char* kFolder = "/photos/";

ListIndex of_list(const std::string& list) {
    ListIndex index;
    index.describe(list, kFolder, ListIndex::Owner::Job);
    index.items = 4;
    index.items_file_bytes = 3;
    return index;
}

std::string text_of(std::span<const ListPart> parts, const ListIndex& index) {
    const std::uint64_t version = ListIndex::kVersion;
    std::string text = "offrlist";
    text += as_text(std::as_bytes(std::span(&version, 1)));
    text += as_text(std::as_bytes(std::span(static_cast<const ListFacts*>(&index), 1)));
    return text += as_text(std::as_bytes(parts));
}

// Facts that a shard compares are the list's, and the last bytes are the hash of the others.
std::string sealed(std::string_view text, const ListIndex& index) {
    std::string file(text);
    if (file.size() < kHeader) return file;
    ListFacts facts;
    std::memcpy(&facts, file.data() + kFacts, sizeof facts);
    facts.list_bytes = index.list_bytes;
    facts.list_changed_ns = 0;
    facts.folder_hash = index.folder_hash;
    facts.items_file_bytes = index.items_file_bytes;
    std::memcpy(file.data() + kFacts, &facts, sizeof facts);
    const std::uint64_t seal = XXH3_64bits(file.data(), file.size());
    return file.append(reinterpret_cast<const char*>(&seal), kSeal);
}

void require_within(const ListIndex& index) {
    expect(index.items > 0 && !index.parts.empty(), "an index has items and parts");
    ListPart before;
    for (const ListPart& part : index.parts) {
        expect(part.offset >= before.offset && part.offset <= index.list_bytes, "parts are in the list");
        expect(part.first_item >= before.first_item && part.first_item <= index.items, "parts begin with its items");
        before = part;
    }
    expect(index.parts.front().first_item == 0, "a part begins with the first item");
}

}  // namespace

FuzzTarget make_list_index() {
    const auto folder = std::make_shared<ScratchFolder>();
    const std::string list = folder->write("input.list", std::vector(kListBytes, std::byte{'x'}));
    folder->write("input.items", std::vector(std::size_t{3}, std::byte{}));
    const auto feed = [folder, list](std::span<const std::byte> input) {
        if (input.empty()) return;
        const std::string_view text = as_text(input.subspan(1));
        const std::string file = input[0] == std::byte{'s'} ? sealed(text, of_list(list)) : std::string(text);
        const std::string path = folder->write("input.index", std::as_bytes(std::span(file)));
        try {
            require_within(*ListIndex::read(path, list, kFolder, ListIndex::Owner::Job));
        } catch (const Error& refused) {
            expect(refused.kind() == ErrorKind::BadInput, "a refusal is one of input");
        }
    };
    const ListPart parts[] = {{.offset = 2, .first_item = 0, .hash = 1}, {.offset = 40, .first_item = 3, .hash = 2}};
    const std::string text = text_of(parts, of_list(list));
    return {feed, {"s" + text, "-" + sealed(text, of_list(list)), "s" + text.substr(0, kHeader)}};
}

}  // namespace offramp
