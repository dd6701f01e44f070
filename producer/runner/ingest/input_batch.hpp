#pragma once

#include <array>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/blocked_time.hpp"
#include "producer/device/device.hpp"
#include "producer/egress/output_batch.hpp"
#include "producer/runner/models/length_groups.hpp"

namespace offramp {

// One device buffer that model inputs are uploaded into, with the events that order its use.
struct InputSlot {
    std::unique_ptr<DeviceBuffer> memory;
    std::unique_ptr<Event> ready;  // recorded by the copy stream
    // Recorded after computation on the buffer. Two events alternate: the copy thread may still check one while the
    // next is recorded.
    std::array<std::unique_ptr<Event>, 2> computed;
    std::uint64_t uses = 0;
    Event* last_use = nullptr;  // an armed event; null: no use to wait for
};

// Lends the device buffers of model inputs, all allocated up front. Shared by the prefetcher and its batches, so that
// either may be destroyed first. Borrows the device. Thread: any. Blocks: acquire(), and the destructor while work on a
// buffer runs.
class InputSlots {
  public:
    InputSlots(Device& device, std::size_t bytes, std::uint32_t count, const Clock& clock);
    ~InputSlots();
    InputSlots(const InputSlots&) = delete;
    InputSlots& operator=(const InputSlots&) = delete;

    // Returns a free buffer. Work submitted before its release may still run: see InputSlot::last_use. Null: closed.
    InputSlot* acquire();
    void give_back(InputSlot& slot);
    void close();

    std::int64_t waiting() const;

  private:
    const Clock& clock_;
    mutable std::mutex mutex_;
    std::condition_variable changed_;
    std::vector<InputSlot> slots_;
    std::vector<InputSlot*> free_;
    bool closed_ = false;
    BlockedTime blocked_;
};

// A loan of one batch of model input that is on the device, or will be once the copy stream has reached it. Use:
// wait_ready(compute), submit the model's work, release_after(compute). Destroying it releases the buffer immediately,
// which is right only if no work was submitted. The rows stay after the release. Thread: one at a time.
class InputBatch {
  public:
    // For input without a buffer of its own: `data` is resident, ready and never overwritten, or null.
    InputBatch(std::uint64_t number, std::vector<RowInfo> rows, const void* data, std::vector<TokenRows> texts = {});
    InputBatch(std::uint64_t number, std::vector<RowInfo> rows, std::shared_ptr<InputSlots> slots, InputSlot& slot,
               std::vector<TokenRows> texts = {});
    InputBatch(std::uint64_t number, std::vector<RowInfo> rows, std::shared_ptr<InputSlots> slots, InputSlot& slot,
               LengthGroups groups);
    // Of a model whose input varies: `input` describes this batch, without rows beyond rows().
    InputBatch(std::uint64_t number, std::vector<RowInfo> rows, std::shared_ptr<InputSlots> slots, InputSlot& slot,
               const TensorSpec& input);
    static InputBatch left_out(std::uint64_t number, std::vector<RowInfo> rows);
    InputBatch(InputBatch&& other) noexcept;
    InputBatch& operator=(InputBatch&& other) noexcept;
    ~InputBatch();

    std::uint64_t number() const { return number_; }
    std::span<const RowInfo> rows() const { return rows_; }  // the last batch may have fewer rows
    // True if it has no readable items: it has no input and needs no computation.
    bool left_out() const { return left_out_; }
    // Makes it such a batch: the model refused its items.
    void leave_out(const std::string& reason);

    // The model's input, with all rows of a full batch; rows beyond rows() are zero before normalisation. Null: the
    // model takes no input, or the buffer was released.
    const void* data() const { return data_; }
    // Null if the input is one block of rows of full length.
    const LengthGroups* groups() const { return groups_ ? &*groups_ : nullptr; }
    // Of tokens: the place of each text's in outputs that have a row for each token; otherwise empty.
    std::span<const TokenRows> texts() const { return groups_ ? groups_->texts : texts_; }
    // Null if the model's batches have one shape.
    const TensorSpec* own_shape() const { return own_shape_ ? &*own_shape_ : nullptr; }
    // An armed event; null if there is no upload to wait for.
    Event* ready() const { return slot_ == nullptr ? nullptr : slot_->ready.get(); }
    // Work submitted to `compute` after this call starts when the input is there. The host does not wait.
    void wait_ready(Stream& compute) const;
    // Releases the buffer: it is overwritten only after the work submitted to `compute` so far. The host does not wait.
    void release_after(Stream& compute);

  private:
    void release() noexcept;

    std::uint64_t number_ = 0;
    std::vector<RowInfo> rows_;
    bool left_out_ = false;
    std::optional<LengthGroups> groups_;
    std::vector<TokenRows> texts_;  // without groups
    std::optional<TensorSpec> own_shape_;
    const void* data_ = nullptr;
    std::shared_ptr<InputSlots> slots_;
    InputSlot* slot_ = nullptr;
};

}  // namespace offramp
