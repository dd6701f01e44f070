// A manifest of pictures, one JSON object per line.

#include "common/app/images/jsonl_pictures.hpp"

#include "common/app/images/unreadable_item.hpp"
#include "common/base/error.hpp"
#include "tests/fuzz/fuzz_target.hpp"
#include "tests/fuzz/scratch_folder.hpp"

namespace offramp {
namespace {

void check_line(const PictureList& pictures, std::uint64_t picture) {
    expect(!pictures.key(picture).empty() && !pictures.origin(picture).empty(), "every line has a name and an origin");
    try {
        const PicturePlace place = pictures.place(picture);
        expect(!place.path.empty() && place.path.find('\0') == std::string::npos, "a path is whole");
        const std::string columns = pictures.columns(picture);
        expect(columns.front() == '{' && columns.back() == '}' && columns.find('\n') == std::string::npos,
               "columns are one object on one line");
        expect((columns == "{}") == (pictures.columns_hash(picture) == 0), "columns have a hash, and nothing else has");
    } catch (const UnreadableItem& unusable) {
        expect(std::string_view(unusable.what()).starts_with("line "), "a refusal names the line");
    }
}

}  // namespace

FuzzTarget make_jsonl() {
    const auto folder = std::make_shared<ScratchFolder>();
    const auto feed = [folder](std::span<const std::byte> input) {
        const std::string path = folder->write("list.jsonl", input);
        try {
            const JsonlPictures pictures(path);
            for (std::uint64_t picture = 0; picture < pictures.size(); ++picture) check_line(pictures, picture);
        } catch (const ConfigError&) {
        }
    };
    return {feed,
            {"{\"uri\":\"a\",\"v\":1e999}\n{\"uri\":\"b\",\"v\":" + std::string(64, '[') + std::string(64, ']') + "}\n",
             "{\"id\": \"a\", \"uri\": \"b/a.jpg\", \"x\": [1, 2.5, null]}\n\n{\"id\": 7, \"uri\": "
             "\"file:///c%20d.png\"}\r\n{\"uri\": \"e\\u0000f\"}\n",
             "\xef\xbb\xbf{\"uri\":\"a\"}\nno "
             "JSON\n{\"id\":\"a\",\"uri\":\"a\"}\n{\"id\":\"a\",\"uri\":\"\\ud83d\\ude00\"}"}};
}

}  // namespace offramp
