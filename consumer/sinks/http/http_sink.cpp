#include "consumer/sinks/http/http_sink.hpp"

#include <curl/curl.h>

#include <algorithm>
#include <cctype>
#include <thread>
#include <utility>

#include "common/base/error.hpp"
#include "common/base/log.hpp"
#include "common/base/redacted_url.hpp"
#include "common/base/version.hpp"
#include "consumer/sinks/http/http_exchange.hpp"
#include "consumer/sinks/opened_library.hpp"

namespace offramp {
namespace {

using std::chrono::milliseconds;

// The calls of libcurl, which the first use opens. Errors: ConfigError if it is missing.
struct Libcurl {
    decltype(&::curl_global_init) global_init;
    decltype(&::curl_easy_init) easy_init;
    decltype(&::curl_easy_cleanup) easy_cleanup;
    CURLcode (*easy_setopt)(CURL*, CURLoption, ...);
    CURLcode (*easy_getinfo)(CURL*, CURLINFO, ...);
    decltype(&::curl_easy_perform) easy_perform;
    decltype(&::curl_easy_strerror) easy_strerror;
    decltype(&::curl_slist_append) slist_append;
    decltype(&::curl_slist_free_all) slist_free_all;
};

Libcurl opened_libcurl() {
    const OpenedLibrary library({"libcurl.so.4", "libcurl-gnutls.so.4"}, "--processor http",
                                "Install libcurl 7.85 or later: apt-get install libcurl4, dnf install libcurl");
    Libcurl calls{};
    library.find(calls.global_init, "curl_global_init");
    library.find(calls.easy_init, "curl_easy_init");
    library.find(calls.easy_cleanup, "curl_easy_cleanup");
    library.find(calls.easy_setopt, "curl_easy_setopt");
    library.find(calls.easy_getinfo, "curl_easy_getinfo");
    library.find(calls.easy_perform, "curl_easy_perform");
    library.find(calls.easy_strerror, "curl_easy_strerror");
    library.find(calls.slist_append, "curl_slist_append");
    library.find(calls.slist_free_all, "curl_slist_free_all");
    return calls;
}

const Libcurl& libcurl() {
    static const Libcurl calls = opened_libcurl();
    return calls;
}

constexpr std::size_t kShownOfAnswer = 200;
// Larger than the part that is shown, so that no secret is cut before it is redacted.
constexpr std::size_t kKeptOfAnswer = 16384;
// The limit for an endless answer.
constexpr std::size_t kLongestAnswer = 1 << 20;
constexpr long kConnectSeconds = 10;
constexpr std::chrono::seconds kLongestRetryAfter{300};
constexpr milliseconds kStep{50};
// A shorter value would match everywhere.
constexpr std::size_t kLeastSecret = 4;

void start_library() {
    static const CURLcode started = libcurl().global_init(CURL_GLOBAL_DEFAULT);
    if (started != CURLE_OK)
        throw Error(ErrorKind::System, std::string("libcurl cannot start: ") + libcurl().easy_strerror(started));
}

// Errors that a retry cannot fix: the URL, the certificate, the library.
bool is_lasting(CURLcode result) {
    switch (result) {
        case CURLE_URL_MALFORMAT:
        case CURLE_UNSUPPORTED_PROTOCOL:
        case CURLE_PEER_FAILED_VERIFICATION:
        case CURLE_SSL_CACERT_BADFILE:
        case CURLE_SSL_CERTPROBLEM:
        case CURLE_NOT_BUILT_IN:
        case CURLE_BAD_FUNCTION_ARGUMENT:
        case CURLE_UNKNOWN_OPTION:
            return true;
        default:
            return false;
    }
}

std::string on_one_line(std::string_view text) {
    std::string clean(text);
    for (char& c : clean)
        if (std::isprint(static_cast<unsigned char>(c)) == 0) c = ' ';
    return clean;
}

}  // namespace

// How one request ended.
struct HttpSink::Outcome {
    bool answered = false;
    bool lasting = false;   // not answered, and never will be
    bool unwanted = false;  // given up: the message is no longer wanted
    long status = 0;
    std::chrono::seconds retry_after{0};
    std::string reason;  // why there is no answer
    std::string answer;  // its first bytes
};

// One handle of libcurl, which keeps its connection between requests.
class HttpSink::Connection {
  public:
    explicit Connection(const HttpTarget& target) {
        start_library();
        handle_.reset(libcurl().easy_init());
        if (!handle_) throw Error(ErrorKind::System, "libcurl cannot create a handle");
        set(CURLOPT_NOSIGNAL, 1L);
        set(CURLOPT_ERRORBUFFER, problem_);
        set(CURLOPT_PROTOCOLS_STR, "http,https");
        set(CURLOPT_USERAGENT, ("offramp/" + std::string(program_version())).c_str());
        set(CURLOPT_CONNECTTIMEOUT, std::min<long>(kConnectSeconds, target.timeout.count()));
        // Limits stalls, not the total time: a large body over a slow line takes long, but keeps moving.
        set(CURLOPT_LOW_SPEED_LIMIT, 1L);
        set(CURLOPT_LOW_SPEED_TIME, static_cast<long>(target.timeout.count()));
        set(CURLOPT_TCP_KEEPALIVE, 1L);
        set(CURLOPT_POST, 1L);
        set(CURLOPT_WRITEFUNCTION, &Connection::take);
        set(CURLOPT_WRITEDATA, this);
        set(CURLOPT_HEADERFUNCTION, &Connection::note_answer);
        set(CURLOPT_HEADERDATA, this);
        set(CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);  // a proxy's reply is not the server's
        set(CURLOPT_XFERINFOFUNCTION, &Connection::report);
        set(CURLOPT_XFERINFODATA, this);
        set(CURLOPT_NOPROGRESS, 0L);
        set(CURLOPT_URL, target.url.c_str());
        if (target.ca_file.empty()) return;
        set(CURLOPT_CAINFO, target.ca_file.c_str());
        set(CURLOPT_CAPATH, static_cast<const char*>(nullptr));  // would otherwise add the system's folder
    }

    Outcome request(const HttpTarget& target, const HttpMessage& message, const std::function<void()>& progress,
                    const std::function<bool()>& wanted) {
        Outcome outcome;
        answer_.clear();
        received_ = 0;
        progress_ = &progress;
        wanted_ = &wanted;
        unwanted_ = false;
        answer_until_ = {};
        headers_are_there_ = false;
        longest_answer_ = target.patience;
        // Otherwise a large body would wait a second for the server's permission.
        headers_.reset(libcurl().slist_append(nullptr, "Expect:"));
        for (const std::span<const std::string> some : {std::span<const std::string>(target.headers), message.headers})
            for (const std::string& header : some) add_header(header);
        set(CURLOPT_HTTPHEADER, headers_.get());
        set(CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(message.body.size()));
        set(CURLOPT_POSTFIELDS, reinterpret_cast<const char*>(message.body.data()));
        problem_[0] = '\0';
        const CURLcode result = libcurl().easy_perform(handle_.get());
        libcurl().easy_getinfo(handle_.get(), CURLINFO_RESPONSE_CODE, &outcome.status);
        outcome.unwanted = unwanted_;
        // An endless response still has its status, at the beginning.
        outcome.answered =
            result == CURLE_OK ||
            ((received_ > kLongestAnswer || (answer_is_stalled() && headers_are_there_)) && outcome.status >= 200);
        // A proxy did not let the request through to the server.
        long of_proxy = 0;
        if (outcome.status == 0) libcurl().easy_getinfo(handle_.get(), CURLINFO_HTTP_CONNECTCODE, &of_proxy);
        if (!outcome.answered && of_proxy >= 400) {
            outcome.answered = true;
            outcome.status = of_proxy;
        }
        outcome.lasting = is_lasting(result);
        curl_off_t seconds = 0;
        libcurl().easy_getinfo(handle_.get(), CURLINFO_RETRY_AFTER, &seconds);
        outcome.retry_after = std::min(std::chrono::seconds(seconds), kLongestRetryAfter);
        outcome.reason = result == CURLE_ABORTED_BY_CALLBACK && answer_is_stalled()
                             ? "its answer is not complete after " + std::to_string(longest_answer_.count()) + " s"
                         : problem_[0] == '\0' ? libcurl().easy_strerror(result)
                                               : problem_;
        outcome.answer = answer_;
        return outcome;
    }

  private:
    struct Cleanup {
        void operator()(CURL* handle) const noexcept { libcurl().easy_cleanup(handle); }
        void operator()(curl_slist* list) const noexcept { libcurl().slist_free_all(list); }
    };

    template <class Value>
    void set(CURLoption option, Value value) {
        const CURLcode result = libcurl().easy_setopt(handle_.get(), option, value);
        if (result != CURLE_OK)
            throw Error(ErrorKind::System, "libcurl refuses its option " + std::to_string(option) + ": " +
                                               libcurl().easy_strerror(result));
    }

    void add_header(const std::string& header) {
        curl_slist* longer = libcurl().slist_append(headers_.get(), header.c_str());
        if (longer == nullptr) throw std::bad_alloc();
        static_cast<void>(headers_.release());
        headers_.reset(longer);
    }

    static std::size_t take(const char* bytes, std::size_t, std::size_t count, void* self) {
        auto* connection = static_cast<Connection*>(self);
        connection->received_ += count;
        connection->answer_.append(bytes, std::min(count, kKeptOfAnswer - connection->answer_.size()));
        return connection->received_ > kLongestAnswer ? 0 : count;
    }

    static std::size_t note_answer(const char* line, std::size_t, std::size_t count, void* self) {
        auto* connection = static_cast<Connection*>(self);
        connection->headers_are_there_ = std::string_view(line, count) == "\r\n";
        if (connection->answer_until_ == std::chrono::steady_clock::time_point{})
            connection->answer_until_ = std::chrono::steady_clock::now() + connection->longest_answer_;
        return count;
    }

    static int report(void* self, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
        auto* connection = static_cast<Connection*>(self);
        (*connection->progress_)();
        connection->unwanted_ = !(*connection->wanted_)();
        return connection->unwanted_ || connection->answer_is_stalled() ? 1 : 0;
    }

    bool answer_is_stalled() const {
        return answer_until_ != std::chrono::steady_clock::time_point{} &&
               std::chrono::steady_clock::now() >= answer_until_;
    }

    std::unique_ptr<CURL, Cleanup> handle_;
    std::unique_ptr<curl_slist, Cleanup> headers_;
    char problem_[CURL_ERROR_SIZE] = {};
    std::string answer_;
    std::size_t received_ = 0;
    const std::function<void()>* progress_ = nullptr;
    const std::function<bool()>* wanted_ = nullptr;
    bool unwanted_ = false;
    bool headers_are_there_ = false;
    // Counted from the response's first line; before that, the timeout limits the server.
    std::chrono::seconds longest_answer_{};
    std::chrono::steady_clock::time_point answer_until_;  // the epoch: not begun
};

HttpSink::HttpSink(HttpTarget target)
    : target_(std::move(target)), shown_(redacted_url(target_.url)), delay_(std::random_device{}()) {
    if (target_.url.empty()) throw ConfigError("no --http-url", "Give the address that results are posted to");
    require_no_credentials(target_.url);
    for (const std::string& header : target_.headers) {
        const std::string_view value = http_header_value(header);
        if (value.size() >= kLeastSecret) secrets_.emplace_back(value);
        // "Bearer abc": the word after the scheme alone is as secret.
        const std::string_view last = value.substr(value.rfind(' ') + 1);
        if (last.size() >= kLeastSecret) secrets_.emplace_back(last);
    }
    connection_ = std::make_unique<Connection>(target_);
}

HttpSink::~HttpSink() = default;

bool HttpSink::post(const HttpMessage& message, const std::function<void()>& progress,
                    const std::function<bool()>& wanted) {
    delay_.reset();
    auto left = std::chrono::duration_cast<std::chrono::nanoseconds>(target_.patience);
    for (int tries = 1;; ++tries) {
        progress();
        if (!wanted()) return false;
        const auto began = std::chrono::steady_clock::now();
        const Outcome outcome = connection_->request(target_, message, progress, wanted);
        if (outcome.unwanted && !outcome.answered) return false;
        const HttpVerdict verdict = outcome.answered ? verdict_of(outcome.status) : HttpVerdict::TryAgain;
        if (verdict == HttpVerdict::Done) return true;
        if (verdict != HttpVerdict::TryAgain || outcome.lasting) refuse(message, outcome);
        const milliseconds delay = delay_.next();
        left -= std::chrono::steady_clock::now() - began + delay;
        if (left.count() <= 0)
            throw Error(ErrorKind::SinkUnavailable,
                        "http: " + shown_ + " " + described(outcome) + " to " + std::string(message.what) +
                            ", posted " + std::to_string(tries) + (tries == 1 ? " time" : " times") +
                            answer_of(outcome),
                        "The run waits for it: check the server and the address");
        if (tries == 1)
            spdlog::warn("http: {} {} to {}: trying again{}", shown_, described(outcome), message.what,
                         outcome.retry_after.count() > 0
                             ? fmt::format(", in {} s as it requested", outcome.retry_after.count())
                             : "");
        if (!pause(std::max<milliseconds>(delay, outcome.retry_after), progress, wanted)) return false;
    }
}

bool HttpSink::pause(milliseconds length, const std::function<void()>& progress,
                     const std::function<bool()>& wanted) const {
    for (; length.count() > 0; length -= std::min(length, kStep)) {
        std::this_thread::sleep_for(std::min(length, kStep));
        progress();
        if (!wanted()) return false;
    }
    return true;
}

std::string HttpSink::described(const Outcome& outcome) const {
    if (outcome.answered) return "answers " + std::to_string(outcome.status);
    return "does not answer (" + on_one_line(outcome.reason) + ")";
}

// A server may repeat the request's headers.
std::string HttpSink::answer_of(const Outcome& outcome) const {
    std::string answer = outcome.answer;
    for (const std::string& secret : secrets_)
        for (std::size_t at = answer.find(secret); at != std::string::npos; at = answer.find(secret, at))
            answer.replace(at, secret.size(), "***");
    return answer.empty() ? "" : ": '" + on_one_line(answer.substr(0, kShownOfAnswer)) + "'";
}

void HttpSink::refuse(const HttpMessage& message, const Outcome& outcome) const {
    const std::string failure =
        "http: " + shown_ + " " + described(outcome) + " to " + std::string(message.what) + answer_of(outcome);
    if (outcome.answered && verdict_of(outcome.status) == HttpVerdict::NotThisOne)
        throw Error(ErrorKind::System, failure,
                    "The server rejects this result; after --max-failures failures (default 3) the batch becomes a "
                    "dead letter");
    throw ConfigError(failure, outcome.answered && outcome.status < 400
                                   ? "Redirects are not followed: give the new address as --http-url"
                                   : "Check --http-url, --http-header, --http-body and --http-ca-file");
}

}  // namespace offramp
