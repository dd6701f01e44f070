#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/unique_fd.hpp"

namespace offramp {

// A part of a text, in characters (Unicode code points).
struct TextSpan {
    std::uint32_t begin = 0, end = 0;  // the end is exclusive
};

// Tokens of texts, made by the `tokenizers` library in a separate process (tokenizer_server.py, which also describes
// the messages on the socket). Owns the process: it ends with this object, and by itself when this process dies.
// Thread: one at a time; end_input(): any. Blocks: until the answer is there. Errors: ConfigError (BadInput) with the
// library's words when the tokenizer's file cannot be used; Error (System) when the process cannot be started, died, or
// gives no answer for minutes. After an error it must not be used.
class TokenizerProcess {
  public:
    struct Settings {
        // an interpreter with the `tokenizers` package; found on the PATH when it has no slash
        std::string python;
        std::string server;                                 // path of tokenizer_server.py
        std::string tokenizer;                              // path of a tokenizer.json
        std::uint32_t length;                               // tokens of a row
        std::string prompt{};                               // precedes each text
        std::uint32_t chunk_tokens = 0, chunk_overlap = 0;  // not 0: cuts texts (spans()), instead of encode()
    };

    explicit TokenizerProcess(Settings settings);  // does not wait for its start
    TokenizerProcess(const TokenizerProcess&) = delete;
    TokenizerProcess& operator=(const TokenizerProcess&) = delete;

    // Waits until the process has started. Call it once, before any encoding. Returns the size of the tokenizer's
    // vocabulary.
    std::uint32_t open();
    // Makes rows of [2, length]: ids, and the attention mask. `texts` are UTF-8; `rows` has room for exactly as many
    // rows. Returns 1 for each text that has too many tokens and was cut, otherwise 0.
    std::vector<std::int32_t> encode(std::span<const std::string_view> texts, std::span<std::int32_t> rows);
    // Where a text is cut into chunks of at most chunk_tokens tokens each, in order; at least one.
    std::vector<TextSpan> spans(std::string_view text);
    // Closes the process's input: it gets no more requests, and waiting for its answer fails.
    void end_input() noexcept;

  private:
    // Waits for the process to end, and kills it some seconds after its input was closed.
    struct Child {
        ~Child();
        pid_t pid = -1;
        std::chrono::steady_clock::time_point input_ended{};
    };

    void start();
    void send(std::span<const std::byte> bytes);
    void receive(std::span<std::byte> bytes);
    void send_texts(std::span<const std::string_view> texts);
    std::uint32_t receive_front();  // the number of bytes that follow
    void receive_reply(std::span<std::byte> payload);
    [[noreturn]] void fail(const std::string& what);

    Settings settings_;
    Child child_;
    UniqueFd socket_;  // after the child: closed before waiting for it
    std::uint32_t tokens_ = 0;
};

}  // namespace offramp
