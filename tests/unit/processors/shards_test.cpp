#include "consumer/processors/results/shard_results.hpp"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>

#include "common/app/program/output_share.hpp"
#include "common/base/error.hpp"
#include "tests/contract/processors/processor_world.hpp"

namespace offramp {
namespace {

using ::testing::HasSubstr;

struct JobOfShard : ::testing::Test {
    void write_job(const std::string& text) const {
        std::filesystem::create_directories(place);
        std::ofstream(folder.path() + "/.offramp-shards/job.json") << text;
    }
    ErrorKind refusal_of(const std::string& of, const std::string& text) const {
        try {
            job_of_shard(of);
        } catch (const Error& error) {
            EXPECT_THAT(error.what(), HasSubstr(text));
            return error.kind();
        }
        return ErrorKind::None;
    }

    test::ScratchFolder folder;
    const std::string place = shard_place(folder.path(), 7);
};

TEST_F(JobOfShard, IsReadFromTheOutput) {
    write_job(R"({"job": "job-a", "folder": "/jobs/a"})");
    EXPECT_EQ(job_of_shard(place), "job-a");
    EXPECT_EQ(job_of_shard(place + "/embeddings-postgres"), "job-a");
}

// A user may give --samples-folder.
TEST_F(JobOfShard, AnotherFolderIsNotAShards) {
    EXPECT_EQ(refusal_of(folder.path(), "not a shard's folder"), ErrorKind::Usage);
}

TEST_F(JobOfShard, RetriesAnUnreadableFileButNoMissingOne) {
    EXPECT_EQ(refusal_of(place, ".offramp-shards/job.json, which names the job of this output, is gone"),
              ErrorKind::CannotWrite);
    const std::string path = folder.path() + "/.offramp-shards/job.json";
    std::filesystem::create_directories(folder.path() + "/.offramp-shards");
    std::filesystem::create_symlink(path, path);
    EXPECT_EQ(refusal_of(place, "which names the job of this output: cannot be opened: Too many levels"),
              ErrorKind::SinkUnavailable);
    std::filesystem::remove(path);
    for (const char* const text : {"", "{", "[]", R"({"job": 7})"}) {
        write_job(text);
        EXPECT_EQ(refusal_of(place, "does not name the job of this output"), ErrorKind::BadInput) << text;
    }
}

}  // namespace
}  // namespace offramp
