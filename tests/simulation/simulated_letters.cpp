#include "tests/simulation/simulated_letters.hpp"

#include <chrono>
#include <filesystem>
#include <system_error>

namespace offramp::simulation {
namespace {

// Only a broken writer needs it.
constexpr std::chrono::seconds kPatience{60};

}  // namespace

SimulatedLetters::SimulatedLetters(SharedObjects& shared, std::string folder)
    : shared_(shared),
      folder_(std::move(folder)),
      writer_(std::make_shared<DeadLetterWriter>(
          DeadLetterWriter::Settings{.folder = folder_,
                                     .run_id = shared.names().run_id,
                                     .run_nonce = shared.names().nonce,
                                     .bytes_of = [this](std::uint32_t slab) { return read(slab); },
                                     .on_outcome =
                                         [this] {
                                             const std::lock_guard lock(mutex_);
                                             ++outcomes_;
                                             changed_.notify_all();
                                         }})) {}

SimulatedLetters::~SimulatedLetters() {
    {
        const std::lock_guard lock(mutex_);
        dead_ = true;
    }
    changed_.notify_all();
    writer_.reset();
    // Its thread noted that it could not read the slab. A dead process does not.
    std::error_code ignored;
    for (const auto& entry : std::filesystem::directory_iterator(folder_, ignored))
        if (entry.path().extension() == ".json" &&
            !std::filesystem::exists(std::filesystem::path(entry.path()).replace_extension(".safetensors")))
            std::filesystem::remove(entry.path());
}

DeadLetterWriter::SlabBytes SimulatedLetters::read(std::uint32_t slab) {
    std::unique_lock lock(mutex_);
    asked_ = slab;
    changed_.notify_all();
    changed_.wait(lock, [this] { return permit_ || dead_; });
    if (dead_) throw std::runtime_error("the process is dead");
    if (*permit_ == Disk::Fails) throw std::runtime_error("no space left on device");
    if (spoil_) shared_.slab(slab)[shared_.layout().header_bytes] ^= std::byte{1};
    return {shared_.slab(slab), nullptr};
}

std::uint32_t SimulatedLetters::write_one(Disk disk, bool spoil) {
    std::unique_lock lock(mutex_);
    const auto wait_for = [&](const auto& done) {
        if (!changed_.wait_for(lock, kPatience, done)) throw Violation("the dead-letter writer hangs");
    };
    wait_for([this] { return asked_.has_value(); });
    const std::uint32_t slab = *asked_;
    const std::uint64_t before = outcomes_;
    asked_.reset();
    permit_ = disk;
    spoil_ = spoil;
    changed_.notify_all();
    wait_for([&] { return outcomes_ > before; });
    permit_.reset();
    if (spoil) shared_.slab(slab)[shared_.layout().header_bytes] ^= std::byte{1};
    return slab;
}

}  // namespace offramp::simulation
