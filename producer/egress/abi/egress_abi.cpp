// The C ABI's producer side. It checks and copies arguments; errors leave it as codes.

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstddef>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <offramp.h>
#include "common/abi/guarded.hpp"
#include "common/abi/live_handles.hpp"
#include "common/base/error.hpp"
#include "common/base/utf8.hpp"
#include "common/shm/run_objects.hpp"
#include "common/wire/slab_header.hpp"
#include "producer/egress/embedded_egress.hpp"
#include "producer/egress/finished_work.hpp"

struct offramp_egress {
    std::unique_ptr<offramp::EmbeddedEgress> run;
    std::shared_ptr<offramp::ReleasedBatches> released = std::make_shared<offramp::ReleasedBatches>();
    std::shared_ptr<offramp::CompletedItems> completed;  // null: completions are not collected
    std::shared_ptr<offramp::CompletedItems> failed;     // null: failed items are not collected
    std::uint32_t tensors = 0;
    pid_t process_id = ::getpid();
};

namespace offramp::abi {
namespace {

// Smallest structs that an earlier caller may pass.
constexpr std::size_t kLeastTensor = offsetof(offramp_tensor, data) + sizeof(void*);
constexpr std::size_t kLeastOptions = offsetof(offramp_egress_options, tensor_count) + sizeof(std::uint32_t);
constexpr std::size_t kLeastBatch = offsetof(offramp_batch, rows) + sizeof(std::uint32_t);
constexpr std::size_t kLeastStats = offsetof(offramp_egress_stats, batches_submitted);

// A loop that takes less than this per batch frees its tensors itself.
constexpr std::chrono::nanoseconds kQuiet = std::chrono::milliseconds(20);

constinit LiveHandles open_egresses;

// The library's own threads start with all signals blocked: signals belong to the program.
class SignalsBlocked {
  public:
    SignalsBlocked() {
        sigset_t all;
        ::sigfillset(&all);
        ::pthread_sigmask(SIG_SETMASK, &all, &before_);
    }
    ~SignalsBlocked() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
    SignalsBlocked(const SignalsBlocked&) = delete;
    SignalsBlocked& operator=(const SignalsBlocked&) = delete;

  private:
    sigset_t before_{};
};

TensorSpec spec_of(const offramp_tensor* given, std::uint32_t index) {
    const std::string which = "tensor " + std::to_string(index);
    const offramp_tensor tensor = known_part(given, kLeastTensor, which.c_str());
    if (tensor.name == nullptr) throw ConfigError(which + " has no name", "Name it: consumers find it by that");
    if (tensor.dims < 1 || tensor.dims > kMaxDims)
        throw ConfigError(which + " has " + std::to_string(tensor.dims) + " dimensions",
                          "Give 1 to " + std::to_string(kMaxDims));
    if (tensor.shape == nullptr) throw ConfigError(which + " has no shape", "Give the address of its dimensions");
    for (std::uint32_t i = 0; i < tensor.dims; ++i)
        if (tensor.shape[i] < 1 && (i == 0 || tensor.shape[i] != OFFRAMP_VARIABLE))
            throw ConfigError(
                "dimension " + std::to_string(i) + " of " + which + " is " + std::to_string(tensor.shape[i]),
                i == 0 ? "Give the usual number of samples in a batch"
                       : "Give 1 or more, or OFFRAMP_VARIABLE if samples differ in it");
    TensorSpec spec = TensorSpec::contiguous(
        tensor.name, DType{tensor.dtype.code, tensor.dtype.bits, tensor.dtype.lanes}, {tensor.shape, tensor.dims});
    if (spec.varies() && tensor.strides != nullptr)
        throw ConfigError(which + " has strides, and its samples differ in shape", "Give NULL: they are row-major");
    if (tensor.strides != nullptr) std::copy_n(tensor.strides, tensor.dims, spec.strides.begin());
    return spec;
}

// "masks", "preview,optional".
std::vector<ConsumerGroup> groups_of(const offramp_egress_options& options) {
    if (options.group_count > RunNames::kMostGroups || (options.group_count > 0 && options.groups == nullptr))
        throw ConfigError(
            std::to_string(options.group_count) + " groups" + (options.groups == nullptr ? " at NULL" : ""),
            "Name at most " + std::to_string(RunNames::kMostGroups) + ", or give 0");
    std::vector<ConsumerGroup> groups;
    for (std::uint32_t i = 0; i < options.group_count; ++i) {
        const std::string_view text = options.groups[i] == nullptr ? "" : options.groups[i];
        const std::size_t comma = std::min(text.find(','), text.size());
        const std::string name(text.substr(0, comma));
        if (!RunNames::is_group_name(name))
            throw ConfigError("group '" + printable(text) + "' has no valid name",
                              "Give 1 to 16 lower-case letters, digits and '-', a letter first, such as 'masks' or "
                              "'preview,optional'");
        if (std::ranges::any_of(groups, [&](const ConsumerGroup& other) { return other.name == name; }))
            throw ConfigError("group '" + name + "' is named twice", "Give each group another name");
        GroupPolicy policy;
        if (comma < text.size())
            if (const auto problem = GroupPolicy::parse(text.substr(comma + 1), policy))
                throw ConfigError("group '" + printable(text) + "' " + *problem,
                                  std::string("Accepted: NAME") + GroupPolicy::kForm);
        if (policy.when_full == WhenFull::Spill)
            throw ConfigError("group '" + printable(text) + "' asks to spill, which only groups of 'offramp run' do",
                              "Leave the word out, and the program waits for the group");
        groups.push_back({.name = name, .policy = policy});
    }
    if (!groups.empty() &&
        std::ranges::all_of(groups, [](const ConsumerGroup& group) { return group.policy.optional; }))
        throw ConfigError("all groups are optional: the run would wait for none of them",
                          "Leave ',optional' out of one at least");
    if (!groups.empty() && options.drop_when_full != 0)
        throw ConfigError("drop_when_full is " + std::to_string(options.drop_when_full) + " in a run with groups",
                          "Give 0; each group has its own policy, such as 'preview,drop-oldest'");
    return groups;
}

EmbeddedEgressOptions options_of(const offramp_egress_options* given) {
    const auto options = known_part(given, kLeastOptions, "offramp_egress_options");
    if (options.tensors == nullptr || options.tensor_count < 1 || options.tensor_count > kMaxTensorsPerSlab)
        throw ConfigError(std::to_string(options.tensors == nullptr ? 0 : options.tensor_count) + " tensors",
                          "Describe 1 to " + std::to_string(kMaxTensorsPerSlab));
    if (options.kill_stalled > 1)
        throw ConfigError("kill_stalled is " + std::to_string(options.kill_stalled),
                          "Give 0 or 1, and zero the options before they are filled in");
    if (options.drop_when_full > OFFRAMP_DROP_OLDEST)
        throw ConfigError("drop_when_full is " + std::to_string(options.drop_when_full),
                          "Give 0, OFFRAMP_DROP_NEWEST or OFFRAMP_DROP_OLDEST");
    EmbeddedEgressOptions wanted{
        .run_dir = text_or(options.run_dir, ""),
        .run_id = text_or(options.run_id, ""),
        .name = text_or(options.name, ""),
        .plan = {
            .samples_per_slab = options.samples_per_slab, .slabs = options.slabs, .slab_bytes = options.slab_bytes}};
    if (options.device != nullptr) wanted.device = options.device;
    const auto* tensor = reinterpret_cast<const std::byte*>(options.tensors);
    for (std::uint32_t i = 0; i < options.tensor_count; ++i) {
        const auto* const one = reinterpret_cast<const offramp_tensor*>(tensor);
        wanted.tensors.push_back(spec_of(one, i));
        tensor += one->size;
    }
    EgressRunOptions& run = wanted.run;
    if (options.max_key_bytes != 0) wanted.plan.max_key_bytes = options.max_key_bytes;
    wanted.plan.metadata_bytes = options.metadata_bytes;
    run.groups = groups_of(options);
    if (options.max_consumers != 0) run.max_consumers = options.max_consumers;
    if (options.drop_when_full == OFFRAMP_DROP_NEWEST) run.when_full = WhenFull::Drop;
    if (options.drop_when_full == OFFRAMP_DROP_OLDEST) run.when_full = WhenFull::DropOldest;
    if (options.max_failures != 0) run.broker.max_failures = options.max_failures;
    run.broker.kill_stalled = options.kill_stalled != 0;
    run.stream.max_delay = seconds_or(options.max_delay_seconds, run.stream.max_delay, "max_delay_seconds");
    run.broker.visibility_timeout =
        seconds_or(options.visibility_timeout_seconds, run.broker.visibility_timeout, "visibility_timeout_seconds");
    return wanted;
}

constexpr HandleTexts kRefusals{
    .null = "the egress is null. Give the one that offramp_egress_open() made",
    .not_open = "the egress was closed, or was never opened by this library. Open one",
    .other_process = "the egress belongs to the process that opened it, and this is a child of it. Submit there"};

std::int32_t on(offramp_egress* egress, offramp_error* error, const std::function<std::int32_t()>& body) noexcept {
    return guarded_on(egress, open_egresses, kRefusals, error, body);
}

// "a\0b\0". The number of keys is checked with the rest of the batch.
std::vector<std::string> split_keys(std::string_view text, std::uint32_t rows) {
    std::vector<std::string> keys;
    keys.reserve(rows);
    while (!text.empty()) {
        const std::size_t end = text.find('\0');
        if (end == std::string_view::npos)
            throw ConfigError("the last key in key_text does not end with a NUL", "End each key with a NUL");
        if (keys.size() == rows)
            throw ConfigError("more keys than samples, " + std::to_string(rows), "Give one for each sample, or none");
        keys.emplace_back(text.substr(0, end));
        text.remove_prefix(end + 1);
    }
    if (keys.empty()) throw ConfigError("key_text has no key in it", "Give one for each sample, or a null key_text");
    return keys;
}

EmbeddedEgress::Batch batch_of(const offramp_batch& given, std::uint32_t tensors) {
    if (given.tensors == nullptr || given.tensor_count != tensors)
        throw ConfigError(std::to_string(given.tensors == nullptr ? 0 : given.tensor_count) +
                              " tensors were submitted, the run was opened with " + std::to_string(tensors),
                          "Submit one of each");
    EmbeddedEgress::Batch batch{
        .tensors = {given.tensors, given.tensor_count}, .rows = given.rows, .stream = given.stream};
    if (given.extents != nullptr) batch.extents = {given.extents, given.tensor_count};
    if (given.addresses != nullptr) batch.addresses = {given.addresses, given.tensor_count};
    if (given.rows > kMaxSamplesPerSlab) return batch;  // run->submit() rejects it
    if (given.keys != nullptr)
        for (std::uint32_t row = 0; row < given.rows; ++row) {
            if (given.keys[row] == nullptr)
                throw ConfigError("key " + std::to_string(row) + " is null", "Give one for each sample, or no keys");
            batch.keys.emplace_back(given.keys[row]);
        }
    if (given.key_text != nullptr) {
        if (given.keys != nullptr) throw ConfigError("a batch has both keys and key_text", "Give one of them");
        batch.keys = split_keys({given.key_text, given.key_text_bytes}, given.rows);
    }
    if (given.metadata != nullptr)
        for (std::uint32_t row = 0; row < given.rows; ++row)
            batch.metadata.emplace_back(text_or(given.metadata[row], ""));
    if (given.items != nullptr) batch.items.assign(given.items, given.items + given.rows);
    return batch;
}

// Releases the tensors' owner once the last copy from them is done.
struct Owner {
    void* owner = nullptr;
    void (*release)(void*) = nullptr;
    std::shared_ptr<ReleasedBatches> released;
    std::uint64_t batch = 0;
    ~Owner() {
        if (release != nullptr) {
            const WithinRelease no_calls;
            release(owner);
        }
        if (released) released->note(batch);
    }
};

std::function<void(std::span<const ItemRange>)> noting_in(std::shared_ptr<CompletedItems>& items) {
    items = std::make_shared<CompletedItems>();
    return [kept = items](std::span<const ItemRange> more) { kept->note(more); };
}

// None: no limit.
std::optional<std::chrono::nanoseconds> timeout_of(double seconds) {
    if (std::isnan(seconds))
        throw ConfigError("the timeout is not a number", "Give seconds, or a negative number to wait without a limit");
    if (seconds < 0) return std::nullopt;
    return std::chrono::nanoseconds(static_cast<std::int64_t>(std::min(seconds, kMostSeconds) * 1e9));
}

// True if items were taken. Errors: ConfigError.
bool take_items(const std::shared_ptr<CompletedItems>& items, const char* option, offramp_items* ranges,
                std::uint32_t capacity, double timeout_seconds, std::uint32_t* count) {
    if (ranges == nullptr || capacity == 0 || count == nullptr)
        throw ConfigError("the address of the items or of their count is null, or the capacity is 0",
                          "Give an array of at least one offramp_items, its capacity, and the address of a count");
    *count = 0;
    if (items == nullptr)
        throw ConfigError(std::string("the egress was opened without ") + option,
                          "Set it to 1 in offramp_egress_options, to collect these items");
    const auto taken = items->take(capacity, timeout_of(timeout_seconds));
    for (const ItemRange& range : taken) ranges[(*count)++] = {range.begin, range.end};
    return !taken.empty();
}

}  // namespace
}  // namespace offramp::abi

using namespace offramp;       // NOLINT: of this file's functions alone
using namespace offramp::abi;  // NOLINT

extern "C" {

std::int32_t offramp_egress_open(const offramp_egress_options* options, offramp_egress** egress, offramp_error* error) {
    if (egress == nullptr)
        return refused(error, OFFRAMP_BAD_ARGUMENT,
                       "the address for the egress is null. Give the address of an offramp_egress*");
    *egress = nullptr;
    return guarded(error, [&] {
        quiet_log();
        EmbeddedEgressOptions wanted = options_of(options);
        const SignalsBlocked blocked;
        auto opened = std::make_unique<offramp_egress>();
        const auto known = known_part(options, kLeastOptions, "offramp_egress_options");
        if (known.report_completed != 0) wanted.on_completed = noting_in(opened->completed);
        if (known.report_failed != 0) wanted.on_failed_items = noting_in(opened->failed);
        opened->tensors = static_cast<std::uint32_t>(wanted.tensors.size());
        opened->run = std::make_unique<EmbeddedEgress>(std::move(wanted));
        open_egresses.add(opened.get());
        *egress = opened.release();
        return std::int32_t{OFFRAMP_OK};
    });
}

std::int32_t offramp_egress_submit(offramp_egress* egress, const offramp_batch* batch, offramp_error* error) {
    return on(egress, error, [&] {
        const auto given = known_part(batch, kLeastBatch, "offramp_batch");
        EmbeddedEgress::Batch taken = batch_of(given, egress->tensors);
        const auto owner = std::make_shared<Owner>();
        taken.owner = owner;
        if (given.timeout_seconds != 0) taken.timeout = timeout_of(given.timeout_seconds);
        const auto batch_number = egress->run->submit(std::move(taken));
        if (!batch_number)
            return refused(error, OFFRAMP_TIMEOUT,
                           "all slabs are full. Submit the batch again, or start more consumers");
        // Only now: a rejected batch releases nothing. The local `owner` prevents an earlier release by the copies.
        owner->owner = given.owner;
        owner->release = given.release;
        owner->released = egress->released;
        owner->batch = *batch_number;
        const std::uint64_t released = egress->released->note_taken();
        if (given.released != nullptr) *given.released = released;
        return std::int32_t{OFFRAMP_OK};
    });
}

std::int32_t offramp_egress_drain(offramp_egress* egress, double timeout_seconds, offramp_error* error) {
    return on(egress, error, [&] {
        if (egress->run->drain(timeout_of(timeout_seconds))) return std::int32_t{OFFRAMP_OK};
        return refused(error, OFFRAMP_TIMEOUT, "consumers are not done yet. Call it again, or start more of them");
    });
}

std::int32_t offramp_egress_get_stats(offramp_egress* egress, offramp_egress_stats* stats, offramp_error* error) {
    return on(egress, error, [&] {
        const auto given = known_part(stats, kLeastStats, "offramp_egress_stats");
        const EgressStats now = egress->run->stats();
        offramp_egress_stats all{.size = given.size,
                                 .batches_submitted = now.output.batches_submitted,
                                 .samples_submitted = now.output.samples_submitted,
                                 .samples_published = now.broker.published.samples,
                                 .samples_completed = now.broker.completed.samples,
                                 .samples_dropped = now.dropped().samples,
                                 .samples_dead_lettered = now.broker.dead_lettered.samples,
                                 .bytes_copied = now.output.bytes_copied,
                                 .copy_seconds = now.output.copy_seconds,
                                 .slab_wait_seconds = now.slab_wait_seconds,
                                 .consumers = 0,
                                 .stalled = 0};
        for (const ConsumerReport& consumer : now.broker.consumers) {
            all.consumers += consumer.end.empty() ? 1U : 0U;
            all.stalled += consumer.end.empty() && consumer.stalled ? 1U : 0U;
        }
        std::memcpy(stats, &all, std::min(given.size, sizeof all));
        return std::int32_t{OFFRAMP_OK};
    });
}

std::int32_t offramp_egress_wait_released(offramp_egress* egress, std::uint64_t seen, double timeout_seconds,
                                          std::uint64_t* released, offramp_error* error) {
    return on(egress, error, [&] {
        if (released == nullptr)
            throw ConfigError("the address for the number of released batches is null",
                              "Give the address of a uint64_t");
        *released = egress->released->wait(seen, timeout_of(timeout_seconds));
        if (*released > seen) return std::int32_t{OFFRAMP_OK};
        return refused(error, OFFRAMP_TIMEOUT, "no more batches are released yet. Call it again");
    });
}

std::int32_t offramp_egress_wait_unattended(offramp_egress* egress, std::uint64_t seen, double quiet_seconds,
                                            double timeout_seconds, std::uint64_t* released, offramp_error* error) {
    return on(egress, error, [&] {
        if (released == nullptr)
            throw ConfigError("the address for the number of released batches is null",
                              "Give the address of a uint64_t");
        const auto quiet = seconds_or(quiet_seconds, kQuiet, "quiet_seconds");
        const auto now = egress->released->wait_unattended(seen, quiet, timeout_of(timeout_seconds));
        if (!now) return refused(error, OFFRAMP_STOPPED, "waiting for released batches was stopped. Close the egress");
        *released = *now;
        if (*released > seen) return std::int32_t{OFFRAMP_OK};
        return refused(error, OFFRAMP_TIMEOUT, "no more batches are released yet. Call it again");
    });
}

std::int32_t offramp_egress_end_waits(offramp_egress* egress, offramp_error* error) {
    return on(egress, error, [&] {
        egress->released->end();
        return std::int32_t{OFFRAMP_OK};
    });
}

std::int32_t offramp_egress_take_completed(offramp_egress* egress, offramp_items* ranges, std::uint32_t capacity,
                                           double timeout_seconds, std::uint32_t* count, offramp_error* error) {
    return on(egress, error, [&] {
        if (take_items(egress->completed, "report_completed", ranges, capacity, timeout_seconds, count))
            return std::int32_t{OFFRAMP_OK};
        return refused(error, OFFRAMP_TIMEOUT, "no more items are completed yet. Call it again");
    });
}

std::int32_t offramp_egress_take_failed(offramp_egress* egress, offramp_items* ranges, std::uint32_t capacity,
                                        double timeout_seconds, std::uint32_t* count, offramp_error* error) {
    return on(egress, error, [&] {
        if (take_items(egress->failed, "report_failed", ranges, capacity, timeout_seconds, count))
            return std::int32_t{OFFRAMP_OK};
        return refused(error, OFFRAMP_TIMEOUT, "no more items have failed yet. Call it again");
    });
}

std::int32_t offramp_egress_close(offramp_egress* egress, offramp_error* error) {
    if (egress == nullptr) return OFFRAMP_OK;
    return on(egress, error, [&] {
        if (!open_egresses.remove(egress)) return refused(error, OFFRAMP_BAD_ARGUMENT, kRefusals.not_open);
        const std::unique_ptr<offramp_egress> closed(egress);
        closed->run.reset();
        return std::int32_t{OFFRAMP_OK};
    });
}

}  // extern "C"
