#include "common/tracing/range_file.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "common/base/trace.hpp"

namespace offramp {
namespace {

using testing::HasSubstr;

TEST(RangeFile, WritesTheEventsOfItsLifetimeOnce) {
    const auto folder = std::filesystem::temp_directory_path() / ("offramp-trace-" + std::to_string(::getpid()));
    { const TraceRange before(TraceName::Map); }
    start_recording(folder.string(), "producer", "async");
    { const TraceRange range(TraceName::Compute, 7); }
    std::thread([] {
        name_this_thread("egress-done");
        const TraceRange range(TraceName::Publish, 8);
    }).join();
    record_device_range("d2h", 9, 100, 200);
    save_recording();
    { const TraceRange after(TraceName::Map); }
    save_recording();

    std::ifstream file(folder / ("producer-" + std::to_string(::getpid()) + ".jsonl"));
    std::stringstream text;
    text << file.rdbuf();
    EXPECT_THAT(text.str(), HasSubstr(R"({"process":"producer","pid":)" + std::to_string(::getpid()) +
                                      R"(,"strategy":"async","not_kept":0})"));
    EXPECT_THAT(text.str(), HasSubstr(R"({"lane":"main","name":"compute","batch":7,)"));
    EXPECT_THAT(text.str(), HasSubstr(R"({"lane":"egress-done","name":"publish","batch":8,)"));
    EXPECT_THAT(text.str(),
                HasSubstr(R"({"lane":"d2h","name":"d2h","batch":9,"begin_ns":100,"end_ns":200,"clock":"device"})"));
    EXPECT_THAT(text.str(), Not(HasSubstr("\"map\"")));
    std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace offramp
