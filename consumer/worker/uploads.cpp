#include "consumer/worker/uploads.hpp"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "common/base/clock.hpp"
#include "common/base/error.hpp"
#include "common/json/json_text.hpp"
#include "common/shm/run_files.hpp"
#include "consumer/sinks/files/atomic_file.hpp"

namespace offramp {
namespace {

namespace fs = std::filesystem;

constexpr const char* kVariable = "OFFRAMP_UPLOADER";

// In a shell's single quotes.
std::string in_quotes(const std::string& text) {
    std::string word = "'";
    for (const char letter : text) word += letter == '\'' ? "'\\''" : std::string(1, letter);
    return word + "'";
}

}  // namespace

class Uploads::Guard final : public SlabProcessor {
  public:
    Guard(Uploads& uploads, SlabProcessor& processor) : uploads_(uploads), processor_(processor) {}

    void process(const SlabContents& slab, const Progress& progress, const StillCurrent& still_current) override {
        if (uploads_.has_leftovers_) uploads_.drop();
        uploads_.has_leftovers_ = true;
        processor_.process(slab, progress, still_current);
        if (still_current()) uploads_.store(progress), uploads_.has_leftovers_ = false;
    }

  private:
    Uploads& uploads_;
    SlabProcessor& processor_;
};

std::unique_ptr<Uploads> Uploads::of_run(const std::string& run_dir) {
    const char* const command = std::getenv(kVariable);
    if (command == nullptr || *command == '\0') return nullptr;
    auto uploads = std::make_unique<Uploads>(run_dir, command);
    ::unsetenv(kVariable);
    return uploads;
}

// A folder that took results may not be made again (HeldOutput), so its name is unique.
Uploads::Uploads(const std::string& run_dir, std::string command)
    : folder_(run_dir + "/" + run_files::kUploads + "/" + std::to_string(::getpid()) + "-" + std::to_string(now_ns())),
      command_(std::move(command) + " " + in_quotes(folder_)) {
    make_folder_of_results(folder_);
}

Uploads::~Uploads() {
    std::error_code ignored;
    fs::remove_all(folder_, ignored);
}

SlabProcessor& Uploads::after(SlabProcessor& processor) {
    guard_ = std::make_unique<Guard>(*this, processor);
    return *guard_;
}

void Uploads::store(const Progress& progress) {
    if (!child_) child_.emplace(command_);
    std::string line;
    bool answers = child_->write_line("store");
    while (answers && (answers = child_->read_line(line))) {
        const nlohmann::json answer = parse_json_or_discard(line);
        const auto why = [&answer](const char* key) { return "storing objects: " + answer.value(key, std::string()); };
        progress();
        if (!answer.is_object()) break;
        if (answer.contains("stored")) return;
        if (answer.contains("unavailable")) throw Error(ErrorKind::SinkUnavailable, why("unavailable"));
        if (answer.contains("failed")) throw SlabFailed(why("failed"));
        if (answer.contains("refused"))
            throw ConfigError(why("refused"), "Check the bucket and its credentials, and continue with --resume");
    }
    const std::string how = child_->end();
    child_.reset();
    // Not SinkUnavailable: a program that never starts would be started forever.
    throw SlabFailed("the program that stores objects (" + command_ + ") ended " + how);
}

// Keeps the folders, as HeldOutput requires.
void Uploads::drop() {
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder_))
        if (!entry.is_directory() || entry.is_symlink()) fs::remove(entry.path());
}

}  // namespace offramp
