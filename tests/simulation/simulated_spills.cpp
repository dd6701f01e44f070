// Where a batch is for each group: in a slab, or in a file.

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "tests/simulation/simulated_producer.hpp"
#include "tests/simulation/simulated_run.hpp"

namespace offramp::simulation {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kWaiting = "slab";
constexpr std::string_view kLost = "lost";

std::string name_of(std::string_view kind, const GroupShare& share) {
    return fmt::format("{}-{}-{}.spill", kind, share.slab, share.generation);
}

std::vector<fs::path> files_in(const std::string& folder) {
    std::vector<fs::path> files;
    std::error_code ignored;
    for (const auto& entry : fs::directory_iterator(folder, ignored)) files.push_back(entry.path());
    std::ranges::sort(files);
    return files;
}

bool is_in_use(SlabState state) { return state == SlabState::Ready || state == SlabState::Leased; }

}  // namespace

std::string SimulatedRun::spill_folder(std::uint32_t group) const {
    return shared_.folder() + "/" + groups_[group].name + "-spill";
}

bool SimulatedRun::is_in_memory(std::uint32_t group, const GroupShare& share) const {
    const SlabWord word = SlabWord::unpack(shared_.memory(group).ledger().entries[share.slab].word);
    return word.generation == share.generation && is_in_use(word.state);
}

// A slab that was neither granted nor published, and is in use.
void SimulatedRun::note_read_back() {
    for (std::uint32_t group = 0; group < groups(); ++group) {
        if (!spills(group)) continue;
        for (std::uint32_t slab = 0; slab < setup_.slabs; ++slab) {
            const SlabWord word = SlabWord::unpack(shared_.memory(group).ledger().entries[slab].word);
            if (is_in_use(word.state) && word.generation != contents_[slab].generation)
                note_read_back(group, slab, word.generation);
        }
    }
}

std::optional<std::uint64_t> SimulatedRun::batch_from_disk(std::uint32_t group, std::uint32_t slab) const {
    std::uint64_t first_word = 0;
    std::memcpy(&first_word, shared_.slab(slab).data() + shared_.layout().header_bytes, sizeof first_word);
    for (std::uint64_t number = 0; number < batches_.size(); ++number)
        if (is_open(group, batches_[number]) && payload_word(number, 0) == first_word) return number;
    return std::nullopt;
}

void SimulatedRun::note_read_back(std::uint32_t group, std::uint32_t slab, std::uint64_t generation) {
    const auto number = batch_from_disk(group, slab);
    if (!number) throw Violation(fmt::format("slab {} has a batch{} that was not on the disk", slab, in_group(group)));
    GroupShare& its = share(group, *number);
    if (is_in_memory(group, its))
        throw Violation(fmt::format("batch {} is in memory twice{}", *number, in_group(group)));
    contents_[slab] = {generation, *number};
    its.slab = slab;
    its.generation = generation;
    its.on_disk = false;
    ++counts_.read_back;
    if (trace_) say(fmt::format("batch {} is read back into slab {}{}", *number, slab, in_group(group)));
    check_bytes(slab, *number, "a slab that was read back" + in_group(group));
}

// The producer dies while a file is written: it has no name yet.
void SimulatedRun::tear_writes() const {
    for (std::uint32_t group = 0; group < groups(); ++group) {
        if (!spills(group)) continue;
        for (const Batch& batch : batches_) {
            const GroupShare& share = batch.shares[group];
            const std::string file = spill_folder(group) + "/" + name_of(kWaiting, share);
            if (is_open(group, batch) && is_in_memory(group, share) && fs::exists(file))
                fs::rename(file, file + ".new");
        }
    }
}

// Each batch is in a slab, or in a file if the group spills. If a required group has lost it, it is marked there.
// Returns the samples that are in flight.
std::uint64_t SimulatedRun::check_places(std::uint32_t group) {
    std::uint64_t in_flight = 0;
    bool any_on_disk = false;
    const SlabLedger::Memory memory = shared_.memory(group).ledger();
    for (std::uint64_t number = 0; number < batches_.size(); ++number) {
        const Batch& batch = batches_[number];
        GroupShare& share = batches_[number].shares[group];
        if (!is_open(group, batch)) continue;
        in_flight += samples_of(number);
        if (is_in_memory(group, share)) {
            if ((memory.entries[share.slab].lost == share.generation) != batch.is_lost())
                throw Violation(fmt::format("batch {} is {}lost, and slab {} is marked otherwise{}", number,
                                            batch.is_lost() ? "" : "not ", share.slab, in_group(group)));
            continue;
        }
        if (!spills(group)) throw Violation(fmt::format("batch {} is in no slab{}", number, in_group(group)));
        const std::string kind(batch.is_lost() ? kLost : kWaiting);
        if (!fs::exists(spill_folder(group) + "/" + name_of(kind, share)))
            throw Violation(
                fmt::format("batch {} is not in the file {}{}", number, name_of(kind, share), in_group(group)));
        any_on_disk = true;
        if (!std::exchange(share.on_disk, true)) {
            ++counts_.spilled;
            if (trace_) say(fmt::format("batch {} is spilled{}", number, in_group(group)));
        }
    }
    for (const SlabEntry& entry : memory.entries) {
        const auto slab = static_cast<std::uint32_t>(&entry - memory.entries.data());
        if (const SlabWord word = SlabWord::unpack(entry.word);
            is_in_use(word.state) && !is_open(group, batches_[contents_[slab].batch]))
            throw Violation(
                fmt::format("batch {} is over, and in slab {}{}", contents_[slab].batch, slab, in_group(group)));
    }
    if (spills(group) && (any_on_disk || producer_->stores.by_group()[group]->busy())) check_files(group);
    return in_flight;
}

// A file is the one copy of a batch, or the copy of a slab whose writing has just ended.
void SimulatedRun::check_files(std::uint32_t group) const {
    for (const fs::path& file : files_in(spill_folder(group))) {
        const std::string name = file.filename().string();
        const auto found = std::ranges::find_if(batches_, [&](const Batch& batch) {
            const GroupShare& share = batch.shares[group];
            return is_open(group, batch) && (name == name_of(kWaiting, share) || name == name_of(kLost, share));
        });
        if (found == batches_.end()) throw Violation(fmt::format("the file {} is left{}", name, in_group(group)));
        const GroupShare& share = found->shares[group];
        if (!is_in_memory(group, share)) continue;
        const SlabLedger& ledger = producer_->ledger(group);
        if (!producer_->stores.by_group()[group]->busy() || !ledger.holders(share.slab).empty())
            throw Violation(fmt::format("the file {} is a second copy{}", name, in_group(group)));
        // Then writing it would free nothing.
        for (std::uint32_t other = 0; other < groups(); ++other)
            if (!spills(other) && !groups_[other].policy.drops_oldest() &&
                producer_->ledger(other).word(share.slab).state != SlabState::Free)
                throw Violation(
                    fmt::format("slab {} is written{}, and in use{}", share.slab, in_group(group), in_group(other)));
    }
}

// --- planted errors ---

void SimulatedRun::spoil(std::string_view failpoint) {
    if (twin_ != Twin::KeepsGeneration && twin_ != Twin::RemovesReadFile && twin_ != Twin::ForgetsDrop) return;
    const auto state_of = [this](std::uint32_t group, std::uint32_t slab) {
        return SlabWord::unpack(shared_.memory(group).ledger().entries[slab].word);
    };
    // The slab that this group reads back.
    const auto is_read_back = [&](std::uint32_t group, std::uint32_t slab) {
        if (!spills(group) || state_of(group, slab).state != SlabState::Filling) return false;
        for (std::uint32_t other = 0; other < groups(); ++other)
            if (other != group && state_of(other, slab).state != SlabState::Free) return false;
        return groups() > 1;
    };
    for (std::uint32_t group = 0; group < groups(); ++group) {
        const ProgressRecord last = ProgressLog(shared_.memory(group).progress()).totals();
        const bool drops = static_cast<CountedStep>(last.step) == CountedStep::Drop && !is_optional(group);
        for (std::uint32_t slab = 0; slab < setup_.slabs; ++slab) {
            if (twin_ == Twin::KeepsGeneration && failpoint == "ledger.passed_over" && is_read_back(group, slab))
                for (std::uint32_t other = 0; other < groups(); ++other)
                    if (other != group)
                        shared_.memory(other).ledger().entries[slab].word =
                            SlabWord{SlabState::Free, 0, state_of(group, slab).generation}.pack();
            if (twin_ == Twin::RemovesReadFile && failpoint == "ledger.publish" && is_read_back(group, slab))
                if (const auto number = batch_from_disk(group, slab))
                    for (const std::string_view kind : {kWaiting, kLost})
                        fs::remove(spill_folder(group) + "/" + name_of(kind, share(group, *number)));
            if (twin_ == Twin::ForgetsDrop && failpoint == "ledger.vacate" && drops && last.slab == slab &&
                last.generation == state_of(group, slab).generation)
                for (std::uint32_t other = 0; other < groups(); ++other)
                    shared_.memory(other).ledger().entries[slab].lost = 0;
        }
    }
}

void SimulatedRun::spoil_files(Twin how) const {
    for (std::uint32_t group = 0; group < groups(); ++group) {
        for (const fs::path& file : files_in(spill_folder(group))) {
            const std::string name = file.filename().string();
            if (how == Twin::SpoilsFile)
                std::fstream(file, std::ios::in | std::ios::out | std::ios::binary)
                    .seekp(static_cast<std::streamoff>(shared_.layout().header_bytes + kPayloadWords * 8 - 1))
                    .put(0);
            if (how == Twin::ForgetsLostFile && name.starts_with(kLost))
                fs::rename(file, file.parent_path() / (std::string(kWaiting) + name.substr(kLost.size())));
        }
    }
}

}  // namespace offramp::simulation
