#include "consumer/sinks/http/http_exchange.hpp"

#include <gmock/gmock.h>

#include <fstream>

#include "common/base/error.hpp"
#include "common/base/redacted_url.hpp"
#include "tests/contract/processors/processor_world.hpp"
#include "tests/support/error_of.hpp"

namespace offramp::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

std::string refusal(const std::string& setting) {
    return test::error_of<ConfigError>([&] { read_http_headers(setting); });
}

TEST(HttpHeaders, AcceptsAHeaderInTheClear) {
    EXPECT_THAT(read_http_headers(""), IsEmpty());
    EXPECT_THAT(read_http_headers("Authorization: Bearer a b"), ElementsAre("Authorization: Bearer a b"));
    EXPECT_EQ(http_header_value("Authorization: \t Bearer a b \t"), "Bearer a b");
    EXPECT_EQ(http_header_value("A:"), "");
    EXPECT_EQ(http_header_value("A: "), "");
    EXPECT_EQ(http_header_value("none"), "none");
}

TEST(HttpHeaders, ReadsOnePerLineFromAFile) {
    const ScratchFolder folder;
    const std::string path = folder.path() + "/headers";
    std::ofstream(path, std::ios::binary) << "A: 1\r\n\n  \nB:2: 3\nC: last";
    EXPECT_THAT(read_http_headers("@" + path), ElementsAre("A: 1", "B:2: 3", "C: last"));
    std::ofstream(path, std::ios::binary) << "A: 1\nthe-secret\n";
    EXPECT_THAT(refusal("@" + path), HasSubstr("line 2 of --http-header's file '" + path + "' is not a header"));
    std::ofstream(path, std::ios::binary) << std::string(70000, 'a');
    EXPECT_THROW(read_http_headers("@" + path), Error);
    EXPECT_THROW(read_http_headers("@" + folder.path()), Error);
    EXPECT_THROW(read_http_headers("@/no/such/file"), Error);
}

TEST(HttpHeaders, RefusesOtherTextsWithoutShowingThem) {
    for (const std::string bad : {"the-secret", ": the-secret", "A B: the-secret",
                                  "A:", "A:  ", "A: the-secret\r\nB: c", "A: the-secret\x01"}) {
        EXPECT_THAT(refusal(bad), HasSubstr("--http-header is not a header"));
        EXPECT_THAT(refusal(bad), Not(HasSubstr("the-secret")));
    }
    EXPECT_THAT(refusal("idempotency-KEY: the-secret"), HasSubstr("'idempotency-key'"));
    EXPECT_THAT(refusal("Content-Type: text/plain"), HasSubstr("'content-type'"));
}

TEST(RedactedUrl, HasNeitherCredentialsNorQuery) {
    EXPECT_EQ(without_credentials("https://me:w@rd@host:80/a@b?c=d@e"), "https://host:80/a@b?c=d@e");
    EXPECT_EQ(redacted_url("https://me:word@host/path?token=1#x"), "https://host/path");
    EXPECT_EQ(redacted_url("https://host?token=me@1"), "https://host");
    EXPECT_TRUE(has_credentials("http://me@host"));
    EXPECT_FALSE(has_credentials("http://host/me@path"));
    EXPECT_EQ(without_credentials("host"), "host");
    EXPECT_EQ(without_credentials(""), "");
}

TEST(KeptUrl, HidesTheQuery) {
    const std::string kept = kept_url("https://me:word@host/path?key=SECRET#x");
    EXPECT_EQ(kept, "https://host/path?left-out");
    EXPECT_EQ(kept_url(kept), kept);
    EXPECT_EQ(kept_url("https://host/path?key=OTHER"), kept) << "a query cannot be guessed from it";
    EXPECT_TRUE(is_missing_query(kept));
    EXPECT_EQ(kept_url("https://host/path"), "https://host/path");
    EXPECT_FALSE(is_missing_query("https://host/path?key=SECRET"));
}

TEST(KeptHeader, HidesAHeaderGivenInTheClear) {
    const std::string kept = kept_header("Authorization: Bearer SECRET");
    EXPECT_THAT(kept, Not(HasSubstr("SECRET")));
    EXPECT_TRUE(is_left_out(kept));
    EXPECT_EQ(kept_header(kept), kept);
    for (const char* plain : {"", "@/run/secrets/header"}) {
        EXPECT_EQ(kept_header(plain), plain);
        EXPECT_FALSE(is_left_out(plain));
    }
}

TEST(HttpVerdict, JudgesEveryKindOfAnswer) {
    for (const long status : {200L, 201L, 202L, 204L, 299L}) EXPECT_EQ(verdict_of(status), HttpVerdict::Done) << status;
    for (const long status : {408L, 425L, 429L, 500L, 502L, 503L, 504L, 599L})
        EXPECT_EQ(verdict_of(status), HttpVerdict::TryAgain) << status;
    for (const long status : {400L, 409L, 412L, 413L, 422L, 451L})
        EXPECT_EQ(verdict_of(status), HttpVerdict::NotThisOne) << status;
    for (const long status : {301L, 302L, 304L, 307L, 308L, 401L, 403L, 404L, 405L, 410L, 415L})
        EXPECT_EQ(verdict_of(status), HttpVerdict::NothingEver) << status;
}

}  // namespace
}  // namespace offramp::test
