#include "producer/runner/checkpoint/run_checkpoint.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <optional>
#include <utility>
#include <vector>

#include "common/app/program/output_share.hpp"
#include "common/app/settings/parsed_values.hpp"
#include "common/app/settings/processor_results.hpp"
#include "common/app/settings/run_config.hpp"
#include "common/base/error.hpp"
#include "common/base/failpoint.hpp"
#include "common/base/files.hpp"
#include "common/base/log.hpp"
#include "common/base/scarcity.hpp"
#include "producer/runner/checkpoint/checkpoint_file.hpp"
#include "producer/runner/checkpoint/items_file.hpp"
#include "producer/runner/sources/source_items.hpp"

namespace offramp {
namespace {

// The launch script created the folder; a missing one is not created again.
const std::string& made_folder(const std::string& folder, OutputShare::Lock lock) {
    std::error_code problem;
    if (lock == OutputShare::Lock::Optional)
        std::filesystem::create_directories(folder, problem);
    else if (!std::filesystem::exists(folder, problem))
        fail_moved("the output folder", folder, "it is not there");
    if (problem)
        throw SystemError("making the output folder " + folder, problem.value(),
                          "Give --output a folder that this user may write to", ErrorKind::CannotWrite);
    return folder;
}

OutputShare::Lock lock_of(const RunConfig& config) {
    return config.lifeline_fd < 0 ? OutputShare::Lock::Optional : OutputShare::Lock::Required;
}

// True if the source has no names: its total is then the only identity of its first items.
bool is_known_as_a_whole(const BatchSource& source) {
    return source.max_key_bytes() == 0 && !source.grows_at_its_end();
}

bool is_of_the_same_whole(const Checkpoint& previous, const BatchSource& source) {
    const auto whole = previous.identity.facts.find(CheckpointIdentity::kItemsOfTheWhole);
    return whole != previous.identity.facts.end() && whole->second == std::to_string(source.items_of_the_whole());
}

// All earlier items are the first ones of the source.
bool begins_as(const BatchSource& source, const Checkpoint& previous) {
    const auto names = previous.identity.facts.find(CheckpointIdentity::kNamesOfItems);
    return names != previous.identity.facts.end() && source.items() >= previous.items() &&
           names->second == source_fingerprint(source, previous.items());
}

// All earlier items are the first ones of the source, and the completed ones are in this run's share: a shard of a
// larger input may be another part of it.
bool grew(const Checkpoint& previous, const BatchSource& source, ItemRange share) {
    if (source.index() != nullptr || source.items() <= previous.items() || share.begin != previous.share().begin)
        return false;
    if (is_known_as_a_whole(source) && !is_of_the_same_whole(previous, source)) return false;
    return begins_as(source, previous);
}

[[noreturn]] void fail_other_work(const std::string& folder, const Checkpoint& previous) {
    throw ConfigError("--output " + folder + " holds the work of run " + previous.run_id,
                      "Give --resume to continue it, or another --output");
}

// Describes missing input items, if they can be determined.
std::string describe_missing_input(const std::string& folder, const Checkpoint& previous, const BatchSource& source) {
    std::vector<std::uint64_t> names;
    if (source.index() != nullptr) return {};
    try {
        if (previous.named) names = read_items_file(folder, previous);
    } catch (const Error&) {
        return {};
    }
    if (names.empty()) return {};
    std::vector<std::uint64_t> now = hashes_of_items(source);
    std::ranges::sort(now);
    const auto missing = std::ranges::count_if(
        names, [&](std::uint64_t name) { return !std::binary_search(now.begin(), now.end(), name); });
    if (missing == 0) return {};
    return fmt::format(
        ". Of its {} items {} {} gone, or renamed (an item whose name another one shares now has its "
        "extension in its key)",
        names.size(), missing, missing == 1 ? "is" : "are");
}

std::string describe_shard_mismatch(const Checkpoint& previous, const BatchSource& source, ItemRange share) {
    const ItemRange was = previous.share();
    if (source.items() == previous.items() || share.begin == was.begin) return {};
    return fmt::format(". Its items began at number {}, and now begin at number {}", was.begin, share.begin);
}

// Logs the work to continue. Errors: ConfigError when the folder's checkpoint is of other work.
void check_same_work(const std::optional<Checkpoint>& previous, CheckpointIdentity identity, const BatchSource& source,
                     ItemRange share, const std::string& folder, const std::string& flag) {
    if (!previous) {
        spdlog::warn("{}: {} has no checkpoint of earlier work", flag, folder);
        return;
    }
    if (!previous->identity.facts.contains(CheckpointIdentity::kItemsOfTheWhole))
        identity.facts.erase(CheckpointIdentity::kItemsOfTheWhole);
    if (grew(*previous, source, share)) {
        spdlog::info("{}: {} new items were added to the {} of the earlier run", flag,
                     source.items() - previous->items(), previous->items());
        for (const char* fact : {CheckpointIdentity::kItems, CheckpointIdentity::kNamesOfItems})
            identity.facts[fact] = previous->identity.facts.at(fact);
    }
    if (const std::string difference = identity.difference_from(previous->identity); !difference.empty())
        throw ConfigError(
            flag + ": " + folder + " holds other work, of run " + previous->run_id + ": " + difference +
                describe_missing_input(folder, *previous, source) + describe_shard_mismatch(*previous, source, share),
            "Repeat that run's input and settings, give another --output, or --overwrite instead of " + flag);
    if (previous->ignored_lines > 0)
        spdlog::warn("{}: {} lines of {}/{} were incomplete: their items are processed again", flag,
                     previous->ignored_lines, folder, kCheckpointName);
    spdlog::info("{}: {} of {} items are done, the last of them by run {}", flag, previous->done.items(),
                 previous->items(), previous->run_id);
}

constexpr const char* kShardFact = "--shard";

Checkpoint checkpoint_of(const std::string& output, std::uint64_t index) {
    const std::string path = shard_place(output, index) + "/" + kCheckpointName;
    std::string why = "gone";
    try {
        if (std::optional<Checkpoint> found = read_checkpoint(path)) return std::move(*found);
    } catch (const Error& problem) {
        if (problem.kind() != ErrorKind::BadInput) throw;
        why = "damaged";
    }
    throw Error(ErrorKind::BadInput, "the shard's checkpoint " + path + " is " + why, to_do_shard_again(output, index));
}

// Nothing if the folder's items file is missing or damaged.
std::optional<std::vector<std::uint64_t>> hashes_in(const std::string& folder, const Checkpoint& checkpoint) {
    try {
        return read_items_file(folder, checkpoint);
    } catch (const Error& problem) {
        if (problem.kind() != ErrorKind::BadInput) throw;
        return std::nullopt;
    }
}

// All shards have the same.
std::vector<std::uint64_t> hashes_of_shards(const std::string& output, std::span<const DoneShard> shards,
                                            const Checkpoint& checkpoint) {
    for (const DoneShard& shard : shards)
        if (auto hashes = hashes_in(shard_place(output, shard.index), checkpoint)) return std::move(*hashes);
    const std::uint64_t first = shards.front().index;
    throw Error(ErrorKind::BadInput,
                shard_place(output, first) + "/" + kItemsFileName +
                    " is gone, damaged, or another shard's, and so is that of every other shard",
                to_do_shard_again(output, first) + ". If input.items is in the job's folder, remove it first");
}

WriteFailure write_failure(const std::string& file, const char* then) {
    return [file, then](int problem) {
        return SystemError("cannot write " + file, problem,
                           way_to_write(problem, "Make the output folder writable") + then, ErrorKind::CannotWrite);
    };
}

constexpr const char* kMergeAgain = ", and merge again";

void write(const std::string& output, const Checkpoint& checkpoint, std::span<const std::uint64_t> hashes) {
    if (checkpoint.named) {
        const std::string items_path = output + "/" + kItemsFileName;
        const auto items = new_items_file(items_path, write_failure(items_path, kMergeAgain));
        write_hashes(*items, hashes);
        items->flush();
        static_cast<void>(items->put_in_place());
        items->flush_name();
    }
    const std::string path = output + "/" + kCheckpointName;
    // The merge holds the folder's lock: it overwrites the file of a killed merge.
    WholeFile file(path, 0644, write_failure("the checkpoint " + path, kMergeAgain));
    file.write(checkpoint.whole_text());
    file.flush();
    static_cast<void>(file.put_in_place());
    file.flush_name();
}

}  // namespace

RunCheckpoint::RunCheckpoint(const RunConfig& config, const BatchSource& source, EarlierWork earlier,
                             std::function<void(std::exception_ptr)> on_failure, std::vector<StitchedOutput> stitched,
                             std::optional<SampleForm> form)
    : folder_(made_folder(config.output, lock_of(config))),
      lock_(folder_, config.run_id, lock_of(config)),
      result_folders_(config, config.catalogue.text("write-path")),
      tiles_(config, source, std::move(stitched)) {
    const std::string path = folder_ + "/" + kCheckpointName;
    const std::optional<Checkpoint> found = read_checkpoint(path);
    // A producer of this run may have died before it had a result to take over.
    if (earlier == EarlierWork::DoneAgain && found && found->run_id != config.run_id) fail_other_work(folder_, *found);
    const bool many_may_write = !config.samples_folder.empty(), is_named = source.max_key_bytes() > 0;
    std::unique_ptr<WholeFile> items_file;
    const auto begin_items_file = [&] {
        const std::string items_path = folder_ + "/" + kItemsFileName;
        items_file = new_items_file(lock_.folder().through(items_path),
                                    write_failure(items_path, "; --resume then continues from here"), many_may_write);
    };
    const auto write_items = [&](std::span<const std::uint64_t> hashes) {
        if (items_file) write_hashes(*items_file, hashes);
    };
    // Each item is hashed once, unless an earlier run's file turns out to be of no use.
    const ListIndex* const index = source.index();
    if (index == nullptr && is_named && (earlier == EarlierWork::DoneAgain || !found)) begin_items_file();
    source_hash_ = index != nullptr ? index->items_hash : offramp::source_hash(source, write_items);
    CheckpointIdentity identity = CheckpointIdentity::of(config, source.items(), source_fingerprint(source_hash_));
    // The total is the same, so a higher --limit only adds items.
    if (is_known_as_a_whole(source))
        identity.facts[CheckpointIdentity::kItemsOfTheWhole] = std::to_string(source.items_of_the_whole());
    if (earlier != EarlierWork::DoneAgain) {
        check_same_work(found, identity, source, share_of(source, config), folder_,
                        earlier == EarlierWork::Recovered ? "recover" : "--resume");
        if (found) {
            done_ = found->done;
            items_before_ = earlier == EarlierWork::Recovered ? found->before : done_.items();
        }
    }
    if (earlier != EarlierWork::Recovered) items_before_ = (done_ = tiles_.of(done_)).items();
    const bool is_linked =
        index != nullptr && link_items_file(index->items_file, lock_.folder().through(folder_ + "/" + kItemsFileName));
    if (is_linked && config.durable) flush_names(folder_, write_failure(folder_, ""));
    // Each shard compares its own part of the job's file when it begins. A resumed shard and the merge compare all.
    if (is_linked && !found) require_hashes(*index, share_of(source, config), source);
    const bool is_there =
        found ? found->items() == source.items() && hashes_in(folder_, *found).has_value() : is_linked;
    if (is_named && !items_file && !is_there) {
        begin_items_file();
        if (index != nullptr)
            copy_hashes(*items_file, *index);
        else
            hash_items(source, {0, source.items()}, write_items);
    }
    if (items_file) items_file->flush();
    writer_ = std::make_unique<CheckpointWriter>(
        path,
        Checkpoint{.run_id = config.run_id,
                   .pid = static_cast<std::uint64_t>(::getpid()),
                   .before = items_before_,
                   .identity = identity,
                   .named = is_named,
                   .shapes = is_named ? shapes_of_items(source) : std::vector<ItemShapes::Shape>{},
                   .form = std::move(form),
                   .done = done_,
                   .ignored_lines = 0},
        config.durable ? Durability::PowerCut : Durability::Process, std::move(on_failure), many_may_write,
        [this] { require_in_place(); }, std::move(items_file));
}

void RunCheckpoint::require_in_place() {
    const std::lock_guard lock(in_place_);
    lock_.require_in_place();
    result_folders_.require_in_place();
}

std::unique_ptr<BatchSource> in_order_of_previous_runs(std::unique_ptr<BatchSource> source, const std::string& folder) {
    const std::optional<Checkpoint> previous = read_checkpoint(folder + "/" + kCheckpointName);
    if (!previous || !previous->named || source->max_key_bytes() == 0 || source->index() != nullptr) return source;
    std::vector<std::uint64_t> hashes;
    try {
        hashes = read_items_file(folder, *previous);
    } catch (const Error& problem) {
        // An input that has kept its order needs no file: the run writes it again.
        if (problem.kind() != ErrorKind::BadInput || !begins_as(*source, *previous)) throw;
        spdlog::warn("{}/{} is missing or damaged; the input has kept its order, so it is written again", folder,
                     kItemsFileName);
        hashes = hashes_of_items(*source);
        hashes.resize(previous->items());
    }
    return in_previous_order(std::move(source), hashes, previous->shapes);
}

std::optional<SampleForm> form_of_previous_runs(const std::string& folder) {
    const std::optional<Checkpoint> previous = read_checkpoint(folder + "/" + kCheckpointName);
    return previous ? previous->form : std::nullopt;
}

// A kill may come between a consumer's first result and its completion, so the checkpoint names the owner of the
// results first.
void RunCheckpoint::begin(const std::vector<ItemRange>& items) {
    if (writer_->begun() || items.empty()) return;
    failpoint("run.first_result");
    require_in_place();
    writer_->begin();
    failpoint("run.begun");
}

void RunCheckpoint::close() { writer_->close(); }

void RunCheckpoint::end() {
    tiles_.require(writer_->done());
    writer_->end();
}

void join_checkpoints(const std::string& output, const std::string& run_id, std::span<const DoneShard> shards,
                      std::uint64_t count) {
    std::optional<Checkpoint> joined;
    for (const DoneShard& shard : shards) {
        Checkpoint one = checkpoint_of(output, shard.index);
        one.identity.facts.erase(kShardFact);
        one.identity.facts.erase(CheckpointIdentity::kNumbersOfItems);
        const Shard::Range share = Shard{shard.index + 1, count}.of(one.items());
        if (shard.whole) one.done.add({share.begin, share.end});
        if (!joined) {
            joined = std::move(one);
            continue;
        }
        if (const std::string difference = one.identity.difference_from(joined->identity); !difference.empty())
            throw ConfigError(
                shard_place(output, shard.index) + " holds other work than the shards before it: " + difference,
                "Shards of a job have one input and one model: begin another job");
        for (const ItemRange& range : one.done.list()) joined->done.add(range);
    }
    expect(joined.has_value(), "a job is merged of at least one shard");
    joined->run_id = run_id;
    joined->pid = static_cast<std::uint64_t>(::getpid());
    joined->before = 0;
    // One shard's end does not describe the whole job.
    joined->ended = shards.size() == count;
    write(output, *joined, joined->named ? hashes_of_shards(output, shards, *joined) : std::vector<std::uint64_t>());
}

}  // namespace offramp
