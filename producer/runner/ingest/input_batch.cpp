#include "producer/runner/ingest/input_batch.hpp"

#include <utility>

#include "common/base/error.hpp"
#include "common/base/log.hpp"

namespace offramp {

InputSlots::InputSlots(Device& device, std::size_t bytes, std::uint32_t count, const Clock& clock)
    : clock_(clock), slots_(count) {
    for (InputSlot& slot : slots_) {
        slot.memory = device.allocate(bytes, "a batch of model input");
        slot.ready = device.make_event();
        for (auto& event : slot.computed) event = device.make_event();
        free_.push_back(&slot);
    }
    std::reverse(free_.begin(), free_.end());  // the first buffer is lent first
}

InputSlots::~InputSlots() {
    for (const InputSlot& slot : slots_) {
        try {
            if (slot.last_use != nullptr) slot.last_use->wait();
        } catch (const std::exception& error) {
            spdlog::error("waiting for the last use of an input buffer: {}", error.what());
        }
    }
}

InputSlot* InputSlots::acquire() {
    std::unique_lock lock(mutex_);
    wait_booked(changed_, lock, blocked_, clock_, [this] { return closed_ || !free_.empty(); });
    if (closed_) return nullptr;
    InputSlot* const slot = free_.back();
    free_.pop_back();
    return slot;
}

void InputSlots::give_back(InputSlot& slot) {
    {
        const std::lock_guard lock(mutex_);
        free_.insert(free_.begin(),
                     &slot);  // reuse the buffer that rested longest: its last use is likely over
    }
    changed_.notify_one();
}

void InputSlots::close() {
    {
        const std::lock_guard lock(mutex_);
        closed_ = true;
    }
    changed_.notify_all();
}

std::int64_t InputSlots::waiting() const {
    const std::lock_guard lock(mutex_);
    return blocked_.waiting();
}

InputBatch::InputBatch(std::uint64_t number, std::vector<RowInfo> rows, const void* data, std::vector<TokenRows> texts)
    : number_(number), rows_(std::move(rows)), texts_(std::move(texts)), data_(data) {}

InputBatch::InputBatch(std::uint64_t number, std::vector<RowInfo> rows, std::shared_ptr<InputSlots> slots,
                       InputSlot& slot, std::vector<TokenRows> texts)
    : number_(number),
      rows_(std::move(rows)),
      texts_(std::move(texts)),
      data_(slot.memory->data()),
      slots_(std::move(slots)),
      slot_(&slot) {}

InputBatch::InputBatch(std::uint64_t number, std::vector<RowInfo> rows, std::shared_ptr<InputSlots> slots,
                       InputSlot& slot, LengthGroups groups)
    : InputBatch(number, std::move(rows), std::move(slots), slot) {
    groups_ = std::move(groups);
}

InputBatch::InputBatch(std::uint64_t number, std::vector<RowInfo> rows, std::shared_ptr<InputSlots> slots,
                       InputSlot& slot, const TensorSpec& input)
    : InputBatch(number, std::move(rows), std::move(slots), slot) {
    own_shape_ = input;
}

InputBatch InputBatch::left_out(std::uint64_t number, std::vector<RowInfo> rows) {
    InputBatch batch(number, std::move(rows), nullptr);
    batch.left_out_ = true;
    return batch;
}

void InputBatch::leave_out(const std::string& reason) {
    for (RowInfo& row : rows_) {
        if (row.empty) continue;
        row.empty = true;
        row.reason = reason;
    }
    left_out_ = true;
}

InputBatch::InputBatch(InputBatch&& other) noexcept
    : number_(other.number_),
      rows_(std::move(other.rows_)),
      left_out_(other.left_out_),
      groups_(std::move(other.groups_)),
      texts_(std::move(other.texts_)),
      own_shape_(std::move(other.own_shape_)),
      data_(std::exchange(other.data_, nullptr)),
      slots_(std::move(other.slots_)),
      slot_(std::exchange(other.slot_, nullptr)) {}

InputBatch& InputBatch::operator=(InputBatch&& other) noexcept {
    if (this != &other) {
        release();
        number_ = other.number_;
        rows_ = std::move(other.rows_);
        left_out_ = other.left_out_;
        groups_ = std::move(other.groups_);
        texts_ = std::move(other.texts_);
        own_shape_ = std::move(other.own_shape_);
        data_ = std::exchange(other.data_, nullptr);
        slots_ = std::move(other.slots_);
        slot_ = std::exchange(other.slot_, nullptr);
    }
    return *this;
}

InputBatch::~InputBatch() { release(); }

void InputBatch::wait_ready(Stream& compute) const {
    if (slot_ != nullptr) compute.wait_for(*slot_->ready);
}

void InputBatch::release_after(Stream& compute) {
    if (slot_ != nullptr) {
        Event& event = *slot_->computed[slot_->uses++ % slot_->computed.size()];
        compute.record(event);
        slot_->last_use = &event;
    }
    release();
}

void InputBatch::release() noexcept {
    data_ = nullptr;
    if (InputSlot* const slot = std::exchange(slot_, nullptr)) slots_->give_back(*slot);
    slots_.reset();
}

}  // namespace offramp
