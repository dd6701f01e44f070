#include "producer/runner/checkpoint/checkpoint_writer.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <span>
#include <string_view>
#include <utility>

#include "common/base/error.hpp"
#include "common/base/failpoint.hpp"
#include "common/base/files.hpp"
#include "common/base/log.hpp"
#include "common/base/scarcity.hpp"
#include "common/base/trace.hpp"

namespace offramp {
namespace {

// The interval between writes. A stream of small slabs costs a few lines a second; a death loses at most this much
// work.
constexpr std::chrono::milliseconds kBetweenWrites{20};

std::string folder_of(const std::string& path) {
    const std::size_t slash = path.rfind('/');
    expect(slash != std::string::npos, "a checkpoint has a folder");
    return path.substr(0, slash);
}

SystemError write_error(const std::string& path, int problem) {
    return SystemError("cannot write the checkpoint " + path, problem,
                       way_to_write(problem, "Make the output folder writable") + "; --resume then continues from here",
                       ErrorKind::CannotWrite);
}

}  // namespace

CheckpointWriter::CheckpointWriter(std::string path, Checkpoint checkpoint, Durability durability,
                                   std::function<void(std::exception_ptr)> on_failure, bool many_may_write,
                                   std::function<void()> require_in_place, std::unique_ptr<WholeFile> items_file)
    : path_(std::move(path)),
      folder_(folder_of(path_)),
      durability_(durability),
      many_may_write_(many_may_write),
      on_failure_(std::move(on_failure)),
      require_in_place_(std::move(require_in_place)),
      checkpoint_(std::move(checkpoint)),
      items_file_(std::move(items_file)) {
    thread_ = std::thread([this] { write_noted(); });
}

CheckpointWriter::~CheckpointWriter() {
    try {
        close();
    } catch (const std::exception& problem) {
        spdlog::error("{}", problem.what());
    }
}

void CheckpointWriter::begin() {
    std::unique_lock lock(mutex_);
    if (begun_) return;
    beginning_ = true;
    changed_.notify_one();
    began_.wait(lock, [this] { return begun_.load() || failure_; });
    if (failure_) std::rethrow_exception(failure_);
}

void CheckpointWriter::note(std::span<const ItemRange> items) {
    if (items.empty()) return;
    bool first = false;
    {
        const std::lock_guard lock(mutex_);
        first = noted_.empty();
        noted_.insert(noted_.end(), items.begin(), items.end());
    }
    if (first) changed_.notify_one();
}

void CheckpointWriter::close() {
    {
        const std::lock_guard lock(mutex_);
        closing_ = true;
    }
    changed_.notify_one();
    if (thread_.joinable()) thread_.join();
    if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
}

void CheckpointWriter::end() {
    expect(!thread_.joinable(), "a checkpoint is closed before it ends");
    require_in_place_();
    checkpoint_.ended = true;
    if (!file_) return write_anew();
    const std::string line = ended_line();
    write_all(file_.get(), std::as_bytes(std::span(line)), [this](int problem) { return write_error(path_, problem); });
    if (durability_ == Durability::PowerCut && ::fdatasync(file_.get()) != 0) throw write_error(path_, errno);
}

void CheckpointWriter::write_noted() {
    name_this_thread("checkpoint");
    std::unique_lock lock(mutex_);
    for (;;) {
        changed_.wait(lock, [this] { return closing_ || beginning_ || !noted_.empty(); });
        if (noted_.empty() && !beginning_) return;
        const std::vector<ItemRange> items = std::exchange(noted_, {});
        lock.unlock();
        std::exception_ptr failure;
        try {
            append(items);
        } catch (...) {
            failure = std::current_exception();
        }
        lock.lock();
        beginning_ = false;
        if (!failure) begun_ = true;
        if (failure && !failure_) failure_ = failure;
        began_.notify_all();
        if (failure && failure_ == failure) {
            lock.unlock();
            on_failure_(failure);
            lock.lock();
        }
        changed_.wait_for(lock, kBetweenWrites, [this] { return closing_; });
    }
}

void CheckpointWriter::append(const std::vector<ItemRange>& items) {
    require_in_place_();
    ItemRanges added;
    for (const ItemRange& range : items) {
        added.add(range);
        checkpoint_.done.add(range);
    }
    // After a failure, rewrite the whole file as soon as that is possible again.
    if (!file_) return write_anew();
    const std::string lines = done_lines(added.list());
    try {
        write_all(file_.get(), std::as_bytes(std::span(lines)),
                  [this](int problem) { return write_error(path_, problem); });
        if (durability_ == Durability::PowerCut && ::fdatasync(file_.get()) != 0) throw write_error(path_, errno);
    } catch (...) {
        file_.reset();
        throw;
    }
    bytes_ += lines.size();
    if (bytes_ >= std::max(kLeastToRewrite, 2 * anew_bytes_)) write_anew();
}

// Flush the new file before the rename: the file that it replaces is the only record of completed work.
void CheckpointWriter::write_anew() {
    if (items_file_) {
        if (!items_in_place_) static_cast<void>(items_file_->put_in_place());
        items_in_place_ = true;
        if (durability_ == Durability::PowerCut) items_file_->flush_name();
        items_file_.reset();
        failpoint("items.in_place");
    }
    const std::string text = checkpoint_.whole_text();
    file_.reset();
    const auto failure = [this](int problem) { return write_error(path_, problem); };
    const std::string path = folder_.through(path_);
    WholeFile file = many_may_write_ ? WholeFile::among_others(path, 0644, failure) : WholeFile(path, 0644, failure);
    file.write(text);
    file.flush();
    UniqueFd in_place = file.put_in_place();
    if (durability_ == Durability::PowerCut) file.flush_name();
    file_ = std::move(in_place);
    bytes_ = anew_bytes_ = text.size();
}

}  // namespace offramp
