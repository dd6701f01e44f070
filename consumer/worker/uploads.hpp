#pragma once

#include <memory>
#include <optional>
#include <string>

#include "consumer/hosts/child_process.hpp"
#include "consumer/session/slab_processor.hpp"

namespace offramp {

// Stores this consumer's files in an object store, for a run whose launcher says so by OFFRAMP_UPLOADER, the command of
// a child program (launch/offramp_launch/stores/uploader.py, which also describes the lines). Processors write the
// files of single samples into a private folder. The child stores them as objects and removes them before a slab counts
// as done: a death before that leaves the slab to another consumer, which finds this one's objects and keeps them.
//
// Owns: the folder, and the child with its requests. Thread: the consumer's. Blocks: on the network. Errors:
// SystemError with CannotWrite if the folder cannot be made.
class Uploads {
  public:
    // Nothing if results stay in the output folder. Takes the variable away: processors may start other runs.
    static std::unique_ptr<Uploads> of_run(const std::string& run_dir);
    Uploads(const std::string& run_dir, std::string command);
    Uploads(const Uploads&) = delete;
    Uploads& operator=(const Uploads&) = delete;
    ~Uploads();

    const std::string& folder() const { return folder_; }
    // Runs `processor`, then stores its files. Borrows it. Errors: those of the processor; SinkUnavailable if the store
    // gives no answer; ConfigError if it refuses every object; SlabFailed if it refuses this slab's or the child dies.
    SlabProcessor& after(SlabProcessor& processor);

  private:
    class Guard;

    void store(const Progress& progress);
    void drop();

    std::string folder_, command_;
    std::optional<ChildProcess> child_;
    std::unique_ptr<SlabProcessor> guard_;
    bool has_leftovers_ = false;  // of a delivery that failed
};

}  // namespace offramp
