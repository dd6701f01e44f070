// The checkpoint in an output folder, torn or written by another program. After a first byte 's' the harness puts the
// right hash in front of each line, to reach the code behind the check of the hash.

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <array>
#include <cstdio>

#include "common/base/error.hpp"
#include "producer/runner/checkpoint/checkpoint_file.hpp"
#include "tests/fuzz/fuzz_target.hpp"

namespace offramp {
namespace {

std::string sealed(std::string_view body) {
    std::array<char, 17> hash{};
    std::snprintf(hash.data(), hash.size(), "%016llx",
                  static_cast<unsigned long long>(XXH3_64bits(body.data(), body.size())));
    return "{\"xxh3\":\"" + std::string(hash.data()) + "\"," + std::string(body) + "\n";
}

void feed(std::span<const std::byte> input) {
    std::string_view rest = as_text(input);
    std::string text(rest);
    if (rest.starts_with('s')) {
        text.clear();
        for (rest.remove_prefix(1); !rest.empty();) {
            const std::size_t end = std::min(rest.find('\n'), rest.size());
            text += sealed(rest.substr(0, end));
            rest.remove_prefix(std::min(end + 1, rest.size()));
        }
    }
    try {
        const Checkpoint checkpoint = parse_checkpoint(text, "a checkpoint");
        for (const ItemRange& range : checkpoint.done.list())
            expect(range.begin < range.end && range.end <= checkpoint.items(), "what is done is of the source");
        // Refusing its own file would cost a run its progress.
        parse_checkpoint(checkpoint.whole_text(), "the same again");
    } catch (const Error& refused) {
        expect(refused.kind() == ErrorKind::BadInput, "a refusal is one of input");
    }
}

}  // namespace

FuzzTarget make_checkpoint() {
    Checkpoint checkpoint;
    checkpoint.run_id = "nightly-7";
    checkpoint.pid = 4711;
    checkpoint.identity.facts = {{"--batch", "8"}, {"items", "1000"}};
    const std::array<ItemRange, 2> done{ItemRange{0, 64}, ItemRange{128, 192}};
    const std::string whole = checkpoint.header_line() + done_lines(done);
    constexpr std::size_t kHashed = sizeof("{\"xxh3\":\"0123456789abcdef\",") - 1;
    const std::size_t second = checkpoint.header_line().size();
    return {feed, {whole, "s" + whole.substr(kHashed, second - kHashed) + whole.substr(second + kHashed)}};
}

}  // namespace offramp
