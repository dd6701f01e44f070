#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "producer/broker/dead_letter_writer.hpp"
#include "tests/simulation/simulated_machine.hpp"

namespace offramp::simulation {

// The real writer of one group's dead letters. Its thread waits before it reads a slab, until the scheduler lets it
// write; the scheduler then waits for the outcome. So a seed decides everything.
class SimulatedLetters {
  public:
    using Filling = std::pair<std::uint32_t, std::uint64_t>;  // slab and generation

    SimulatedLetters(SharedObjects& shared, std::string folder);
    // As the death of the process: what it has not begun to write is not there.
    ~SimulatedLetters();
    SimulatedLetters(const SimulatedLetters&) = delete;
    SimulatedLetters& operator=(const SimulatedLetters&) = delete;

    const std::shared_ptr<DeadLetterWriter>& writer() const { return writer_; }
    // Call it when the writer has a job. `spoil`: a byte of the slab is another one meanwhile. Returns the slab.
    enum class Disk { Writes, Fails };
    std::uint32_t write_one(Disk disk, bool spoil);

    const std::string& folder() const { return folder_; }
    static std::string stem(const std::string& folder, std::uint64_t batch) {
        return folder + "/batch-" + std::to_string(batch) + "-row-0";
    }

  private:
    DeadLetterWriter::SlabBytes read(std::uint32_t slab);

    SharedObjects& shared_;
    const std::string folder_;
    std::mutex mutex_;
    std::condition_variable changed_;
    std::optional<Disk> permit_;
    bool spoil_ = false;
    bool dead_ = false;
    std::optional<std::uint32_t> asked_;  // the slab that the writer waits for, or was written last
    std::uint64_t outcomes_ = 0;
    std::shared_ptr<DeadLetterWriter> writer_;
};

}  // namespace offramp::simulation
