// A list of input files, and the keys made from its names, which become names of output files.

#include "common/app/images/item_keys.hpp"
#include "common/app/images/picture_list.hpp"
#include "common/base/error.hpp"
#include "common/base/utf8.hpp"
#include "common/wire/slab_header.hpp"
#include "tests/fuzz/fuzz_target.hpp"
#include "tests/fuzz/scratch_folder.hpp"

namespace offramp {
namespace {

void check_key(std::string_view key) {
    expect(!key.empty() && key.size() <= kMaxKeyBytes && !key.starts_with('/'),
           "a key is a relative name of limited length");
    for (std::size_t begin = 0; begin <= key.size();) {
        const std::size_t end = std::min(key.find('/', begin), key.size());
        const std::string_view part = key.substr(begin, end - begin);
        expect(!part.empty() && part != "." && part != "..", "a key stays below the output folder");
        begin = end + 1;
    }
    for (std::size_t at = 0; at < key.size();) {
        const std::size_t bytes = utf8_character_bytes(key.substr(at));
        expect(bytes > 0, "a key is UTF-8");
        at += bytes;
    }
}

}  // namespace

FuzzTarget make_input_list() {
    const auto folder = std::make_shared<ScratchFolder>();
    const auto feed = [folder](std::span<const std::byte> input) {
        const std::string path = folder->write("list.txt", input);
        try {
            const FilePictures pictures(list_image_files(path));
            for (std::uint64_t i = 0; i < pictures.size(); ++i) {
                check_key(pictures.key(i));
                expect(!pictures.origin(i).empty(), "a path can be shown");
            }
        } catch (const ConfigError&) {
        }
    };
    return {feed, {"# photos\na/cat.jpg\na/cat.png\n/b/../dog.jpeg\n\n../x.png\r\n"}};
}

}  // namespace offramp
