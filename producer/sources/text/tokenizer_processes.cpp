#include "producer/sources/text/tokenizer_processes.hpp"

#include <utility>

#include "common/base/error.hpp"
#include "common/base/log.hpp"

namespace offramp {

TokenizerProcesses::TokenizerProcesses(TokenizerProcess::Settings settings, std::uint64_t texts_each)
    : settings_(std::move(settings)), texts_each_(texts_each) {
    expect(texts_each_ > 0, "texts make another process worth its start");
    idle_.push_back(std::make_unique<TokenizerProcess>(settings_));
    tokens_ = idle_.front()->tokens();
}

// All are told before any is waited for.
TokenizerProcesses::~TokenizerProcesses() {
    for (const auto& process : idle_) process->end_input();
}

std::size_t TokenizerProcesses::at_once() const {
    const std::lock_guard lock(mutex_);
    return wanted();
}

void TokenizerProcesses::encode(std::span<const std::string_view> texts, std::span<std::int32_t> rows) {
    std::unique_ptr<TokenizerProcess> process = take();
    while (!process) {
        process = start_another();
        if (!process) process = take();
    }
    try {
        process->encode(texts, rows);
    } catch (...) {
        put_back(std::move(process));
        throw;
    }
    {
        const std::lock_guard lock(mutex_);
        encoded_ += texts.size();
    }
    put_back(std::move(process));
}

// None: another is wanted, which the caller starts.
std::unique_ptr<TokenizerProcess> TokenizerProcesses::take() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return !idle_.empty() || taken_ < wanted(); });
    ++taken_;
    if (idle_.empty()) return nullptr;
    std::unique_ptr<TokenizerProcess> process = std::move(idle_.back());
    idle_.pop_back();
    return process;
}

// None when it cannot be: those that are there are all that there will be.
std::unique_ptr<TokenizerProcess> TokenizerProcesses::start_another() {
    try {
        return std::make_unique<TokenizerProcess>(settings_);
    } catch (const Error& problem) {
        const std::lock_guard lock(mutex_);
        --taken_;
        most_ = taken_ + idle_.size();
        spdlog::warn("no other tokenizer can be started, {} go on: {}", most_, problem.what());
        return nullptr;
    }
}

void TokenizerProcesses::put_back(std::unique_ptr<TokenizerProcess> process) {
    {
        const std::lock_guard lock(mutex_);
        --taken_;
        idle_.push_back(std::move(process));
    }
    changed_.notify_one();
}

}  // namespace offramp
