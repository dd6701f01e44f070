#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/shm/group_policy.hpp"
#include "producer/broker/dead_letter_writer.hpp"
#include "producer/broker/run_records.hpp"
#include "producer/broker/spill_store.hpp"
#include "producer/pool/slab_exchange.hpp"

namespace offramp {

// A group of consumers with its own post-processing.
struct ConsumerGroup {
    std::string name;        // RunNames::is_group_name()
    GroupPolicy policy{};    // when no slab is free
    std::uint64_t work = 0;  // BrokerOptions::work
};

// What a group that spills asks the broker about the other groups over the same slabs.
struct OtherGroups {
    std::function<bool()> egress_is_short;  // it has fewer slabs granted ahead than it wants, and none is free
    // The slab is free in every group once each that can make room, this one included, has done so.
    std::function<bool(std::uint32_t)> can_be_freed;
    std::function<bool(std::uint32_t)> have_it_free;
    // This group fills the slab from the disk: in the others its next generation begins.
    std::function<void(std::uint32_t)> pass_over;
};

struct BrokerOptions {
    std::string group;     // ConsumerGroup::name; empty: the run has one group, without a name
    GroupPolicy policy{};  // ConsumerGroup::policy
    std::uint64_t run_nonce = 0;
    std::uint64_t work = 0;           // hash of the processing that consumers must announce (SlabWork::hash)
    std::vector<uid_t> allowed_uids;  // users whose consumers are admitted
    std::chrono::nanoseconds visibility_timeout =
        std::chrono::seconds(30);      // without progress, before another consumer also gets the slab
    std::uint32_t max_failures = 3;    // failed deliveries before a filling becomes a dead letter
    std::uint64_t warmup_batches = 0;  // excluded from the steady-state stats
    std::chrono::nanoseconds disconnect_timeout = std::chrono::seconds(5);  // for consumers' Disconnects at the end
    ProgressLog* progress = nullptr;  // counts steps for a successor; outlives the broker; null: none
    std::function<void(const PublishedSlab&)> on_completed;  // a completion was accepted; called on the broker's thread
    std::function<void(const PublishedSlab&)> on_dead_letter;  // a slab became a dead letter; on the broker's thread
    // A slab is counted as a dead letter, or as dropped, and the ledger has not taken that step. Set by the broker.
    std::function<void(const PublishedSlab&, CountedStep)> before_loss{};
    bool kill_stalled = false;  // kill a stalled consumer
    // An optional group's, too: slabs that they hold cannot be dropped.
    bool kills_stalled() const { return kill_stalled || policy.optional; }
    std::shared_ptr<DeadLetterWriter> dead_letters;  // keeps their payloads; null: they are only counted
    std::shared_ptr<SpillStore> spill;  // takes waiting slabs while the egress needs theirs; null: the egress waits
    OtherGroups others{};               // of a group that spills; set by the broker
    // A waiting slab will be dropped that no group has lost. Called before the drop, on the broker's thread.
    std::function<void(const SlabTicket&, std::span<const std::byte>)> on_dropped;
};

// The beginning of a message about one group of several.
inline std::string in_group(const BrokerOptions& options) {
    return options.group.empty() ? "" : "group '" + options.group + "': ";
}

// Where a granted slab's bytes are, and whether they may be used yet.
struct SlabMemory {
    std::function<bool(std::uint32_t)> usable;
    std::function<std::span<std::byte>(std::uint32_t)> bytes_of;
    std::function<void()> refresh_heartbeats = [] {
    };  // updates the consumers' heartbeat records, where they are a copy
};

}  // namespace offramp
