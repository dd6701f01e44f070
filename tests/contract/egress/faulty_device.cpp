#include "tests/contract/egress/faulty_device.hpp"

#include <utility>

namespace offramp {
namespace {

class FaultyEvent final : public Event {
  public:
    FaultyEvent(std::unique_ptr<Event> real, Fault fault) : real_(std::move(real)), fault_(fault) {}

    Event& real() { return *real_; }
    bool armed() const override { return real_->armed(); }
    bool done() override { return real_->done(); }
    void wait() override {
        if (fault_ != Fault::DoneTooEarly) real_->wait();
    }
    double seconds_since(Event& earlier) override {
        return fault_ == Fault::DoneTooEarly ? 0 : real_->seconds_since(static_cast<FaultyEvent&>(earlier).real());
    }

  private:
    std::unique_ptr<Event> real_;
    Fault fault_;
};

Event& real(Event& event) { return static_cast<FaultyEvent&>(event).real(); }

class FaultyStream final : public Stream {
  public:
    FaultyStream(std::unique_ptr<Stream> real, bool waits) : real_(std::move(real)), waits_(waits) {}

    void copy_to_host(std::byte* to, const void* from, std::size_t bytes) override {
        real_->copy_to_host(to, from, bytes);
    }
    void copy_to_device(void* to, const std::byte* from, std::size_t bytes) override {
        real_->copy_to_device(to, from, bytes);
    }
    void copy_all_to_host(std::span<const HostCopy> copies) override { real_->copy_all_to_host(copies); }
    void run_on_host(std::function<void()> work) override { real_->run_on_host(std::move(work)); }
    void record(Event& event) override { real_->record(real(event)); }
    void wait_for(Event& event) override {
        if (waits_) real_->wait_for(real(event));
    }
    void synchronize() override { real_->synchronize(); }
    void* native() const override { return real_->native(); }

  private:
    std::unique_ptr<Stream> real_;
    bool waits_;
};

class FaultyDevice final : public Device {
  public:
    FaultyDevice(std::unique_ptr<Device> real, Fault fault) : real_(std::move(real)), fault_(fault) {}

    DeviceInfo info() const override { return real_->info(); }
    bool is_gpu() const override { return real_->is_gpu(); }
    void use_on_this_thread() override { real_->use_on_this_thread(); }
    std::unique_ptr<Stream> make_stream(const std::string& name, Priority priority) override {
        return std::make_unique<FaultyStream>(real_->make_stream(name, priority), fault_ != Fault::ComputeNotAwaited);
    }
    std::unique_ptr<Stream> borrow_stream(void* native) override {
        return std::make_unique<FaultyStream>(real_->borrow_stream(native), fault_ != Fault::ComputeNotAwaited);
    }
    std::unique_ptr<Event> make_event(Timing timing) override {
        return std::make_unique<FaultyEvent>(real_->make_event(timing), fault_);
    }
    std::unique_ptr<DeviceBuffer> allocate(std::size_t bytes, const std::string& purpose) override {
        return real_->allocate(bytes, purpose);
    }
    std::unique_ptr<DeviceBuffer> allocate_pinned_host(std::size_t bytes, const std::string& purpose) override {
        return real_->allocate_pinned_host(bytes, purpose);
    }
    std::unique_ptr<PinnedRegistration> pin(std::span<std::byte> range) override { return real_->pin(range); }
    PinningProof prove_pinned(std::span<std::byte> range) override { return real_->prove_pinned(range); }

  private:
    std::unique_ptr<Device> real_;
    Fault fault_;
};

}  // namespace

std::unique_ptr<Device> make_faulty_device(std::unique_ptr<Device> real, Fault fault) {
    return std::make_unique<FaultyDevice>(std::move(real), fault);
}

}  // namespace offramp
