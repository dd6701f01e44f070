#pragma once

#include <offramp.h>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include <offramp/error.hpp>
#include <offramp/tensor.hpp>

namespace offramp {

// Throw it in a consumer's function when its sink is unavailable: the slab goes back without counting a failure.
struct Retry : std::runtime_error {
    using std::runtime_error::runtime_error;
};

// Throw it when the slab failed and this process can go on: a failure is counted, and the slab goes to another
// consumer or again to this one.
struct Failed : std::runtime_error {
    using std::runtime_error::runtime_error;
};

// Throw it when no consumer can process the slab: it is dead-lettered immediately, with this message.
struct Rejected : std::runtime_error {
    using std::runtime_error::runtime_error;
};

// One slab: read-only, valid during the call that receives it.
class Slab {
  public:
    explicit Slab(const offramp_slab& slab) : slab_(&slab) {}

    std::uint32_t size() const { return slab_->sample_count; }
    const offramp_sample& sample(std::uint32_t index) const {
        return *reinterpret_cast<const offramp_sample*>(reinterpret_cast<const char*>(slab_->samples) +
                                                        index * slab_->sample_size);
    }
    std::string_view key(std::uint32_t index) const { return {sample(index).key, sample(index).key_bytes}; }
    // A JSON object, or empty.
    std::string_view metadata(std::uint32_t index) const {
        return {sample(index).metadata, sample(index).metadata_bytes};
    }
    std::uint32_t tensors() const { return slab_->tensor_count; }
    const offramp_tensor& tensor(std::uint32_t index = 0) const {
        return *reinterpret_cast<const offramp_tensor*>(reinterpret_cast<const char*>(slab_->tensors) +
                                                        index * slab_->tensor_size);
    }
    // The sample's own shape.
    std::span<const std::int64_t> shape(std::uint32_t index, std::uint32_t of_tensor = 0) const {
        const offramp_tensor& values = tensor(of_tensor);
        return {values.rows == nullptr ? values.shape + 1 : values.rows[sample(index).row].shape, values.dims - 1};
    }
    // A sample's elements, in the order of the tensor's strides. `T` has the size of an element.
    template <typename T>
    std::span<const T> row(std::uint32_t index, std::uint32_t of_tensor = 0) const {
        const offramp_tensor& values = tensor(of_tensor);
        std::size_t count = 1;
        for (const std::int64_t extent : shape(index, of_tensor)) count *= static_cast<std::size_t>(extent);
        if (sizeof(T) * 8 != values.dtype.bits)
            throw std::invalid_argument("the tensor has numbers of " + std::to_string(values.dtype.bits) + " bits");
        if (values.rows != nullptr) return {static_cast<const T*>(values.rows[sample(index).row].data), count};
        return {static_cast<const T*>(values.data) + count * sample(index).row, count};
    }
    const offramp_slab& raw() const { return *slab_; }

  private:
    const offramp_slab* slab_;
};

// offramp_consumer_options; 0: automatic.
struct ConsumerOptions {
    std::string run_dir;
    std::uint32_t window = 0;
    double wait_for_run_seconds = 0;
    bool takes_variable = true;  // Slab::row() and shape() do
    std::string group{};         // of a run with groups: the one to join
};

// Reads a run's slabs; offramp.h documents each call. Thread: one; stop() from any, and from a signal handler.
class Consumer {
  public:
    explicit Consumer(const ConsumerOptions& options) {
        offramp_consumer_options given{};
        given.size = sizeof given;
        given.run_dir = options.run_dir.c_str();
        given.window = options.window;
        given.takes_variable = options.takes_variable ? 1 : 0;
        given.wait_for_run_seconds = options.wait_for_run_seconds;
        given.group = options.group.empty() ? nullptr : options.group.c_str();
        offramp_consumer* opened = nullptr;
        detail::checked([&](offramp_error* error) { return offramp_consumer_open(&given, &opened, error); });
        consumer_.reset(opened);
    }
    template <std::convertible_to<std::string> RunDir>  // no braces: those are options
    explicit Consumer(const RunDir& run_dir, double wait_for_run_seconds = 0)
        : Consumer(ConsumerOptions{.run_dir = run_dir, .wait_for_run_seconds = wait_for_run_seconds}) {}

    // Calls `work(slab)` for each slab until the run ends (true) or stop() (false). Continues after Failed and
    // Rejected. Retry ends the call with an Error and counts no failure. Any other exception counts one and is
    // rethrown.
    template <typename Work>
    bool for_each(Work work) {
        struct Call {
            Work& work;
            offramp_consumer* consumer;
            std::exception_ptr thrown{};
            std::int32_t failed(const char* why, std::int32_t code) const {
                offramp_consumer_explain(consumer, why);
                return code;
            }
        } call{work, consumer_.get()};
        const auto process = [](void* user, const offramp_slab* slab) -> std::int32_t {
            Call& at = *static_cast<Call*>(user);
            try {
                at.work(Slab(*slab));
                return OFFRAMP_OK;
            } catch (const Retry&) {
                return OFFRAMP_RETRY;
            } catch (const Failed& failed) {
                return at.failed(failed.what(), OFFRAMP_FAILED);
            } catch (const Rejected& rejected) {
                return at.failed(rejected.what(), OFFRAMP_REJECTED);
            } catch (const std::exception& other) {
                at.thrown = std::current_exception();
                return at.failed(other.what(), OFFRAMP_CALLBACK_FAILED);
            } catch (...) {
                at.thrown = std::current_exception();
                return OFFRAMP_CALLBACK_FAILED;
            }
        };
        offramp_error error{};
        const int code = offramp_consumer_run(consumer_.get(), process, &call, &error);
        if (call.thrown) std::rethrow_exception(call.thrown);
        if (code != OFFRAMP_OK && code != OFFRAMP_STOPPED) throw Error(error);
        return code == OFFRAMP_OK;
    }

    void progress() noexcept { offramp_consumer_progress(consumer_.get()); }
    bool still_current() noexcept { return offramp_consumer_still_current(consumer_.get()) == 1; }
    void stop() noexcept { offramp_consumer_stop(consumer_.get()); }

  private:
    struct Close {
        void operator()(offramp_consumer* consumer) const noexcept { offramp_consumer_close(consumer, nullptr); }
    };
    std::unique_ptr<offramp_consumer, Close> consumer_;
};

}  // namespace offramp
