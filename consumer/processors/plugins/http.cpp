#include <xxhash.h>

#include <array>
#include <cctype>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/error.hpp"
#include "common/base/redacted_url.hpp"
#include "common/json/json_text.hpp"
#include "consumer/processors/processor.hpp"
#include "consumer/processors/raw/array_formats.hpp"
#include "consumer/processors/raw/sample_array.hpp"
#include "consumer/sinks/http/http_exchange.hpp"
#include "consumer/sinks/http/http_sink.hpp"

namespace offramp {
namespace {

// Encodes a key or name as a header's value: everything but letters, digits and -._~/ becomes %XX, as in a URL.
std::string percent_encoded(std::string_view text) {
    constexpr std::string_view kPlain = "-._~/";
    constexpr std::string_view kDigits = "0123456789ABCDEF";
    std::string encoded;
    for (const char c : text) {
        const auto byte = static_cast<unsigned char>(c);
        if ((byte < 0x80 && std::isalnum(byte) != 0) || kPlain.find(c) != std::string_view::npos) {
            encoded += c;
        } else {
            encoded += '%';
            encoded += kDigits[byte >> 4U];
            encoded += kDigits[byte & 0xfU];
        }
    }
    return encoded;
}

// The 128-bit XXH3 of key, NUL and output, as 32 hexadecimal digits: equal in every delivery and every run. Names of
// outputs contain no NUL, so the split is unambiguous.
std::string idempotency_key(std::string_view key, std::string_view output) {
    std::string text(key);
    text += '\0';
    text += output;
    XXH128_canonical_t bytes;
    XXH128_canonicalFromHash(&bytes, XXH3_128bits(text.data(), text.size()));
    std::string digits;
    for (const unsigned char byte : bytes.digest) {
        std::array<char, 3> two{};
        std::snprintf(two.data(), two.size(), "%02x", byte);
        digits += two.data();
    }
    return digits;
}

const std::string& whole_url(const CatalogueValues& given) {
    const std::string& url = given.text("http-url");
    if (is_missing_query(url))
        throw ConfigError(
            "--http-url '" + url + "' comes from a run's saved settings, which omit the query: it may hold a secret",
            "Give the run's full --http-url");
    return url;
}

const std::string& whole_header(const CatalogueValues& given) {
    const std::string& header = given.text("http-header");
    if (is_left_out(header))
        throw ConfigError(
            "--http-header comes from a run's saved settings, which omit headers that are not in a file: they may be "
            "secrets",
            "Give the same --http-header as that run, or start the run with one in a file: --http-header @FILE");
    return header;
}

// Posts each output of each sample to --http-url, one request each.
class Http final : public Processor {
  public:
    explicit Http(const CatalogueValues& given)
        : as_npy_(given.text("http-body") == "npy"),
          sink_({.url = whole_url(given),
                 .headers = read_http_headers(whole_header(given)),
                 .ca_file = given.text("http-ca-file"),
                 .timeout = std::chrono::seconds(given.number("http-timeout-seconds")),
                 .patience = std::chrono::seconds(given.number("http-patience-seconds"))}) {}

    void process(const SlabContents& slab, const Progress& progress, const StillCurrent& still_current) override {
        for (const SampleView& sample : slab.samples) {
            progress();
            if (sample.empty) continue;
            for (const TensorView& tensor : slab.tensors) {
                make_body(slab, tensor, sample);
                const std::vector<std::string> headers{
                    as_npy_ ? "Content-Type: application/x-npy" : "Content-Type: application/json",
                    "Idempotency-Key: " + idempotency_key(sample.key, tensor.spec.name),
                    "Offramp-Sample: " + percent_encoded(sample.key),
                    "Offramp-Output: " + percent_encoded(tensor.spec.name)};
                const std::string what = "sample '" + sample.key + "', output '" + tensor.spec.name + "'";
                if (!sink_.post({.what = what, .headers = headers, .body = std::as_bytes(std::span(body_))}, progress,
                                still_current))
                    return;
            }
        }
    }

  private:
    // Depends only on the sample and the output: a repeated delivery has the same bytes.
    void make_body(const SlabContents& slab, const TensorView& tensor, const SampleView& sample) {
        const auto elements = array_.of(tensor, sample.row);
        const TensorSpec spec = tensor.row_spec(sample.row);
        if (as_npy_) {
            body_ = npy_header(spec, "http");
            const auto numbers = npy_.of(tensor.spec.dtype, elements);
            body_.append(reinterpret_cast<const char*>(numbers.data()), numbers.size());
            return;
        }
        const nlohmann::ordered_json head{{"key", sample.key},
                                          {"output", tensor.spec.name},
                                          {"model", slab.model},
                                          {"dtype", to_string(tensor.spec.dtype)},
                                          {"shape", sample_shape(spec)}};
        body_ = json_text(head);
        body_.pop_back();
        if (!sample.metadata.empty()) body_ += ",\"metadata\":" + sample.metadata;
        body_ += ",\"data\":";
        append_json_array(body_, spec, elements, "http");
        body_ += '}';
    }

    bool as_npy_;
    HttpSink sink_;
    SampleArray array_;
    NpyNumbers npy_;
    std::string body_;
};

}  // namespace

std::unique_ptr<Processor> make_http(const ProcessorOptions& options) {
    return std::make_unique<Http>(options.settings);
}

std::unique_ptr<RunOutput> run_output_of_http(const CatalogueValues& /*settings*/) { return nullptr; }

}  // namespace offramp
