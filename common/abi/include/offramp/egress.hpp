#pragma once

#include <offramp.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <offramp/error.hpp>
#include <offramp/tensor.hpp>

namespace offramp {

// offramp_egress_options. A field that is 0 or empty gets its default.
struct EgressOptions {
    std::string run_dir;
    std::vector<TensorSpec> tensors;
    std::string device = "auto";
    std::string run_id{};
    std::string name{};
    std::uint32_t slabs = 0;
    std::uint32_t samples_per_slab = 0;
    std::uint32_t max_key_bytes = 0;
    std::uint32_t max_consumers = 0;
    std::uint32_t drop_when_full = 0;  // OFFRAMP_DROP_NEWEST (or true), OFFRAMP_DROP_OLDEST
    std::uint32_t max_failures = 0;
    double max_delay_seconds = 0;
    double visibility_timeout_seconds = 0;
    bool report_completed = false;
    bool kill_stalled = false;
    bool report_failed = false;
    std::uint64_t slab_bytes = 0;
    std::uint32_t metadata_bytes = 0;
    std::vector<std::string> groups{};  // "masks", or "preview,optional"
};

// One tensor of a batch: the address of its samples on the device. If they differ in shape (OFFRAMP_VARIABLE), each
// sample's extents in the variable dimensions, and its address unless the samples follow one another from `data`.
struct BatchTensor {
    const void* data = nullptr;
    std::vector<std::int64_t> extents{};
    std::vector<const void*> addresses{};

    BatchTensor(const void* samples) : data(samples) {}  // NOLINT: a batch is a list of addresses
    BatchTensor(const void* samples, std::vector<std::int64_t> extents_of_samples)
        : data(samples), extents(std::move(extents_of_samples)) {}
    BatchTensor(std::vector<const void*> addresses_of_samples, std::vector<std::int64_t> extents_of_samples)
        : extents(std::move(extents_of_samples)), addresses(std::move(addresses_of_samples)) {}
};

// Moves outputs off the device for a custom loop; offramp.h documents each call. Move-only. Thread: any; submit() and
// drain() are serialized.
class Egress {
  public:
    explicit Egress(const EgressOptions& options) {
        std::vector<offramp_tensor> tensors;
        for (const TensorSpec& tensor : options.tensors) {
            variable_.push_back(static_cast<std::size_t>(
                std::count(tensor.shape.begin(), tensor.shape.end(), std::int64_t{OFFRAMP_VARIABLE})));
            tensors.push_back({sizeof(offramp_tensor), tensor.name.c_str(), tensor.dtype,
                               static_cast<std::uint32_t>(tensor.shape.size()), tensor.shape.data(),
                               tensor.strides.empty() ? nullptr : tensor.strides.data(), nullptr, nullptr});
        }
        offramp_egress_options given{};
        given.size = sizeof given;
        given.run_dir = options.run_dir.c_str();
        given.tensors = tensors.data();
        given.tensor_count = static_cast<std::uint32_t>(tensors.size());
        given.device = options.device.c_str();
        given.run_id = options.run_id.c_str();
        given.name = options.name.c_str();
        given.slabs = options.slabs;
        given.samples_per_slab = options.samples_per_slab;
        given.max_key_bytes = options.max_key_bytes;
        given.max_consumers = options.max_consumers;
        given.drop_when_full = options.drop_when_full;
        given.max_failures = options.max_failures;
        given.max_delay_seconds = options.max_delay_seconds;
        given.visibility_timeout_seconds = options.visibility_timeout_seconds;
        given.report_completed = options.report_completed ? 1 : 0;
        given.kill_stalled = options.kill_stalled ? 1 : 0;
        given.report_failed = options.report_failed ? 1 : 0;
        given.slab_bytes = options.slab_bytes;
        given.metadata_bytes = options.metadata_bytes;
        std::vector<const char*> groups;
        for (const std::string& group : options.groups) groups.push_back(group.c_str());
        given.groups = groups.data();
        given.group_count = static_cast<std::uint32_t>(groups.size());
        offramp_egress* opened = nullptr;
        detail::checked([&](offramp_error* error) { return offramp_egress_open(&given, &opened, error); });
        egress_.reset(opened);
    }

    // `tensors`: in the options' order; `stream`: the cudaStream_t that writes them; `owner` is held until the copies
    // are done. `keys`, `items` and `metadata` (JSON objects): one per row, or none.
    void submit(const std::vector<BatchTensor>& tensors, std::uint32_t rows, void* stream = nullptr,
                std::shared_ptr<const void> owner = nullptr, const std::vector<std::string>& keys = {},
                const std::vector<std::uint64_t>& items = {}, const std::vector<std::string>& metadata = {}) {
        std::vector<const void*> data;
        std::vector<const std::int64_t*> extents;
        std::vector<const void* const*> addresses;
        for (const BatchTensor& tensor : tensors) {
            const std::size_t variable = data.size() < variable_.size() ? variable_[data.size()] : 0;
            if (!tensor.extents.empty() && tensor.extents.size() != rows * variable)
                refuse_count(tensor.extents.size(), "extents", rows);
            data.push_back(tensor.data);
            extents.push_back(tensor.extents.empty() ? nullptr : tensor.extents.data());
            addresses.push_back(require_one_a_row(tensor.addresses, rows, "addresses"));
        }
        std::vector<const char*> names, objects;
        for (const std::string& key : keys) names.push_back(key.c_str());
        for (const std::string& object : metadata) objects.push_back(object.c_str());
        auto held = std::make_unique<std::shared_ptr<const void>>(std::move(owner));
        offramp_batch batch{};
        batch.size = sizeof batch;
        batch.tensors = data.data();
        batch.tensor_count = static_cast<std::uint32_t>(data.size());
        batch.extents = extents.data();
        batch.addresses = addresses.data();
        batch.rows = rows;
        batch.keys = require_one_a_row(names, rows, "keys");
        batch.items = require_one_a_row(items, rows, "items");
        batch.metadata = require_one_a_row(objects, rows, "metadata objects");
        batch.stream = stream;
        batch.owner = held.get();
        batch.release = [](void* owned) { delete static_cast<std::shared_ptr<const void>*>(owned); };
        detail::checked([&](offramp_error* error) { return offramp_egress_submit(egress_.get(), &batch, error); });
        held.release();
    }

    // The same for tensors whose samples have one shape.
    void submit(std::span<const void* const> tensors, std::uint32_t rows, void* stream = nullptr,
                std::shared_ptr<const void> owner = nullptr, const std::vector<std::string>& keys = {},
                const std::vector<std::uint64_t>& items = {}, const std::vector<std::string>& metadata = {}) {
        submit(std::vector<BatchTensor>(tensors.begin(), tensors.end()), rows, stream, std::move(owner), keys, items,
               metadata);
    }

    // True when consumers have finished all slabs, dead letters included: stats().samples_dead_lettered counts those.
    // False after the timeout.
    bool drain(std::optional<std::chrono::duration<double>> timeout = std::nullopt) {
        const double seconds = timeout ? timeout->count() : -1;
        return detail::checked(
                   [&](offramp_error* error) { return offramp_egress_drain(egress_.get(), seconds, error); },
                   OFFRAMP_TIMEOUT) == OFFRAMP_OK;
    }

    offramp_egress_stats stats() const {
        offramp_egress_stats stats{};
        stats.size = sizeof stats;
        detail::checked([&](offramp_error* error) { return offramp_egress_get_stats(egress_.get(), &stats, error); });
        return stats;
    }

    // Items completed since the last call; empty after the timeout. Requires the option `report_completed`.
    std::vector<offramp_items> take_completed(std::chrono::duration<double> timeout = {}) {
        return taken_by(offramp_egress_take_completed, timeout);
    }

    // The same for dropped and dead-lettered items. Requires the option `report_failed`.
    std::vector<offramp_items> take_failed(std::chrono::duration<double> timeout = {}) {
        return taken_by(offramp_egress_take_failed, timeout);
    }

  private:
    template <typename Take>
    std::vector<offramp_items> taken_by(Take take, std::chrono::duration<double> timeout) {
        std::vector<offramp_items> ranges(64);
        std::uint32_t count = 0;
        detail::checked(
            [&](offramp_error* error) {
                return take(egress_.get(), ranges.data(), static_cast<std::uint32_t>(ranges.size()), timeout.count(),
                            &count, error);
            },
            OFFRAMP_TIMEOUT);
        ranges.resize(count);
        return ranges;
    }

    template <typename Value>
    static const Value* require_one_a_row(const std::vector<Value>& values, std::uint32_t rows, const char* what) {
        if (values.empty()) return nullptr;
        if (values.size() != rows) refuse_count(values.size(), what, rows);
        return values.data();
    }
    [[noreturn]] static void refuse_count(std::size_t count, const char* what, std::uint32_t rows) {
        offramp_error error{OFFRAMP_BAD_ARGUMENT, {}};
        const std::string text = std::to_string(count) + " " + what + " for " + std::to_string(rows) +
                                 " samples. Give the same number for each sample, or none";
        text.copy(error.text, sizeof error.text - 1);
        throw Error(error);
    }
    struct Close {
        void operator()(offramp_egress* egress) const noexcept { offramp_egress_close(egress, nullptr); }
    };
    std::vector<std::size_t> variable_;  // dimensions of each tensor
    std::unique_ptr<offramp_egress, Close> egress_;
};

}  // namespace offramp
