// A table of texts, one JSON object per line.

#include "common/app/texts/jsonl_texts.hpp"

#include "tests/fuzz/fuzz_target.hpp"
#include "tests/fuzz/scratch_folder.hpp"
#include "tests/fuzz/table_check.hpp"

namespace offramp {

FuzzTarget make_jsonl_texts() {
    const auto folder = std::make_shared<ScratchFolder>();
    const auto feed = [folder](std::span<const std::byte> input) {
        InputSettings all, some;
        all.source = "jsonl-text";
        all.input = folder->write("texts.jsonl", input);
        some = all;
        some.columns = "n";
        for (const InputSettings& config : {all, some})
            check_table([&] { return std::make_unique<JsonlTexts>(config); });
    };
    return {
        feed,
        {"{\"id\": \"a\", \"text\": \"one\", \"n\": 1}\n\n{\"id\": 7, \"text\": \"two \\u00e4\", \"n\": null}\r\n",
         "\xef\xbb\xbf{\"id\":\"a\",\"text\":\"\",\"n\":[1,{\"x\":2.5}]}\n{\"id\":\"b\",\"text\":\"\\ud83d\\ude00\"}",
         "{\"id\": 18446744073709551616, \"text\": \"t\"}\n{\"id\":\"18446744073709551616\",\"text\":\"t\"}\n",
         "{\"id\":\"a\",\"text\":\"t\",\"n\":1e999}\nno JSON\n", "{\"text\":\"t\"}\n{\"id\":\"\",\"text\":3}\n",
         "{\"id\":\"a/../b\",\"text\":\"t\",\"n\":" + std::string(70, '[') + std::string(70, ']') + "}\n"}};
}

}  // namespace offramp
