// Lines that consumers left for the merge. The first byte decides whether the file of an earlier merge is foreign, too.

#include "common/base/error.hpp"
#include "consumer/sinks/segments/segment_file.hpp"
#include "consumer/sinks/segments/segment_merge.hpp"
#include "tests/fuzz/fuzz_target.hpp"
#include "tests/fuzz/scratch_folder.hpp"

namespace offramp {

FuzzTarget make_segment() {
    const auto folder = std::make_shared<ScratchFolder>();
    const auto feed = [folder](std::span<const std::byte> input) {
        const bool kept = !input.empty() && (std::to_integer<unsigned>(input[0]) & 1U) != 0;
        const auto lines = input.subspan(std::min<std::size_t>(1, input.size()));
        const std::string segments = segment_folder(folder->path(), "series");
        std::filesystem::create_directories(segments);
        folder->write(segments.substr(folder->path().size() + 1) + "/" + segment_file_name(0, 0, as_text(lines)),
                      lines);
        if (kept) folder->write("series.tsv", lines);
        try {
            const MergeOutcome outcome = merge_segments(folder->path(), "series", folder->path() + "/series.tsv");
            expect(outcome.segments == 1 && outcome.conflicts <= lines.size(), "the segment was merged");
        } catch (const ProtocolError& refused) {
            expect(std::string_view(refused.what()).find("damaged") != std::string_view::npos,
                   "a refusal names what is damaged");
        }
        std::filesystem::remove_all(folder->path() + "/.offramp-segments");
        std::filesystem::remove(folder->path() + "/series.tsv");
    };
    return {feed,
            {std::string("\0", 1) + "0\ta\tb\n1\tc\n1\td\n",
             "\x01"
             "5\tx\n3\ty\\t\n",
             "\x01{\"item\":7,\"a\":1}\n{\"item\":12}\n"}};
}

}  // namespace offramp
