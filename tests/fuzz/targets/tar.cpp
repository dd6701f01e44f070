// The headers of a tar archive: WebDataset shards.

#include "common/app/images/tar_index.hpp"

#include <algorithm>
#include <cstring>

#include "common/base/error.hpp"
#include "tests/fuzz/exact_copy.hpp"
#include "tests/fuzz/fuzz_target.hpp"
#include "tests/unit/images/tar_files.hpp"

namespace offramp {
namespace {

void feed(std::span<const std::byte> input) {
    ExactCopy copy(input);
    const auto bytes = copy.bytes();
    std::uint64_t last_end = 0;
    const auto read_at = [&](std::uint64_t offset, char* to, std::size_t count) {
        const std::size_t there =
            offset < bytes.size() ? std::min<std::size_t>(count, bytes.size() - static_cast<std::size_t>(offset)) : 0;
        if (there > 0) std::memcpy(to, bytes.data() + offset, there);
        return there;
    };
    TarLeftOut left_out;
    const auto take = [&](const TarMember& member) {
        expect(!member.name.empty() && member.name.find('\0') == std::string::npos, "a member has a name");
        expect(member.offset >= last_end + 512 && member.offset % 512 == 0 && member.offset <= bytes.size(),
               "members follow one another");
        expect(member.bytes <= (std::uint64_t{1} << 62), "a size is small enough for arithmetic");
        last_end = member.offset + member.bytes;
    };
    const auto problem = index_tar(read_at, take, &left_out);
    expect((left_out.links + left_out.sparse) * 512 <= bytes.size(), "left-out members have a header");
    expect(!problem || !problem->empty(), "a problem has a description");
}

}  // namespace

FuzzTarget make_tar() {
    const std::string endless =
        test::tar_header({.name = "a", .size_field = std::string("\x80\0\0\0\xff\xff\xff\xff\xff\xff\xff\xff", 12)});
    return {feed,
            {test::tar_member("a.jpg", "one") + test::tar_member("a.json", "{}") + test::tar_end(),
             test::gnu_member(std::string(130, 'n') + ".jpg", "two"), test::pax_member("b.jpg", "three"),
             endless + endless}};
}

}  // namespace offramp
