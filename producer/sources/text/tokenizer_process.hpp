#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "common/base/unique_fd.hpp"

namespace offramp {

// Tokens of texts, made by the `tokenizers` library in a process of its own (tokenizer_server.py, which also says what goes over the
// socket). Owns the process: it ends with this object, and by itself when this process dies.
// Thread: one at a time. Blocks: until the answer is there.
// Errors: ConfigError (BadInput) with the library's words when the tokenizer's file cannot be used; Error (System) when the process cannot
// be started, died, or gives no answer for minutes.
class TokenizerProcess {
  public:
    struct Settings {
        std::string python;      // the interpreter that has the `tokenizers` package; found on the PATH when it has no slash
        std::string server;      // path of tokenizer_server.py
        std::string tokenizer;   // path of a tokenizer.json
        std::uint32_t length;    // tokens of a row
    };

    explicit TokenizerProcess(Settings settings);
    TokenizerProcess(const TokenizerProcess&) = delete;
    TokenizerProcess& operator=(const TokenizerProcess&) = delete;

    std::uint32_t tokens() const { return tokens_; }    // that the tokenizer knows
    // Rows of [2, length]: ids, and the attention mask. `texts` are UTF-8; `rows` has place for exactly that many.
    void encode(std::span<const std::string_view> texts, std::span<std::int32_t> rows);
    // It will be asked for nothing more, and ends: the destructor waits for that.
    void end_input() { socket_.reset(); }

  private:
    // Waits for its end, and after some seconds makes it; whoever holds one has closed its input by then.
    struct Child {
        ~Child();
        pid_t pid = -1;
    };

    void start();
    void send(std::span<const std::byte> bytes);
    void receive(std::span<std::byte> bytes);
    void receive_reply(std::span<std::byte> payload);
    [[noreturn]] void fail(const std::string& what);

    Settings settings_;
    Child child_;
    UniqueFd socket_;    // behind the child: closed before it is waited for
    std::uint32_t tokens_ = 0;
};

}  // namespace offramp
