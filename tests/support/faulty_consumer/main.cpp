// offramp-consumer with an additional processor, "crash-on-item", which runs the processor in OFFRAMP_TEST_THEN
// (default: none) if it does not die. With groups, any processor of the group OFFRAMP_TEST_CRASH_GROUP dies like it.
// With OFFRAMP_TEST_GATE any processor's slabs wait at a gate. With OFFRAMP_TEST_RECHECK_FILE they are reread while
// they are held. A run with another --processor takes it for the one in OFFRAMP_TEST_STANDS_FOR.

#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "consumer/worker/run_consumer.hpp"
#include "tests/support/faulty_consumer/crash_on_item.hpp"
#include "tests/support/faulty_consumer/gated.hpp"
#include "tests/support/faulty_consumer/rechecked.hpp"
#include "tests/support/faulty_consumer/test_setting.hpp"

namespace offramp::faulty {
namespace {

constexpr std::string_view kCrashOnItem = "crash-on-item";
constexpr std::array<std::string_view, 1> kMadeBesides{kCrashOnItem};

std::unique_ptr<Processor> make_named_processor(const RunConfig& config) {
    if (config.processor == kCrashOnItem)
        return std::make_unique<CrashOnItem>(make_processor(text_setting("OFFRAMP_TEST_THEN", "none"), config));
    return own_processors(nullptr).make(config);
}

std::unique_ptr<Processor> make_faulty_processor(const RunConfig& config) {
    auto processor = make_named_processor(config);
    const std::vector<GroupSettings> groups = config.groups();
    if (!groups.empty() && groups.front().name == text_setting("OFFRAMP_TEST_CRASH_GROUP", ""))
        processor = std::make_unique<CrashOnItem>(std::move(processor));
    if (!text_setting("OFFRAMP_TEST_GATE", "").empty()) return std::make_unique<Gated>(std::move(processor));
    if (!text_setting("OFFRAMP_TEST_RECHECK_FILE", "").empty())
        return std::make_unique<Rechecked>(std::move(processor));
    return processor;
}

}  // namespace
}  // namespace offramp::faulty

// finish and join-shards treat its results as those of OFFRAMP_TEST_THEN.
int main(int argc, char** argv) {
    std::vector<const char*> words(argv, argv + argc);
    const std::string then = offramp::faulty::text_setting("OFFRAMP_TEST_THEN", "none");
    const auto is = [](std::string_view wanted) { return [wanted](const char* word) { return word == wanted; }; };
    const std::string flag = "--processor=", faulty = flag + std::string(offramp::faulty::kCrashOnItem);
    const std::string then_as_flag = flag + then;
    if (std::ranges::any_of(words, is("finish")) || std::ranges::any_of(words, is("join-shards"))) {
        std::ranges::replace_if(words, is(offramp::faulty::kCrashOnItem), then.c_str());
        std::ranges::replace_if(words, is(faulty), then_as_flag.c_str());
    }
    return offramp::run_consumer(argc, words.data(),
                                 {.make = offramp::faulty::make_faulty_processor,
                                  .besides = offramp::faulty::kMadeBesides,
                                  .stands_for = offramp::faulty::text_setting("OFFRAMP_TEST_STANDS_FOR", "")});
}
