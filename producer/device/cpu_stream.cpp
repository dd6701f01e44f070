#include "producer/device/cpu_stream.hpp"

#include <cstring>
#include <utility>

#include "common/base/error.hpp"
#include "common/base/trace.hpp"
#include "producer/device/cpu_event.hpp"

namespace offramp {

CpuStream::CpuStream(const std::string& name) : thread_([this, name] { run(name); }) {}

CpuStream::~CpuStream() {
    {
        const std::scoped_lock lock(mutex_);
        ending_ = true;
    }
    given_.notify_one();
    thread_.join();
}

void CpuStream::run(const std::string& name) {
    name_this_thread(name.c_str());
    std::unique_lock lock(mutex_);
    while (true) {
        given_.wait(lock, [this] { return ending_ || !queue_.empty(); });
        if (queue_.empty()) return;
        const std::function<void()> work = std::move(queue_.front());
        queue_.pop_front();
        lock.unlock();
        work();
        lock.lock();
    }
}

void CpuStream::enqueue(std::function<void()> work) {
    {
        const std::scoped_lock lock(mutex_);
        queue_.push_back(std::move(work));
    }
    given_.notify_one();
}

void CpuStream::copy_to_host(std::byte* to, const void* from, std::size_t bytes) {
    if (bytes == 0) return;
    enqueue([=] { std::memcpy(to, from, bytes); });
}

void CpuStream::copy_to_device(void* to, const std::byte* from, std::size_t bytes) {
    if (bytes == 0) return;
    enqueue([=] { std::memcpy(to, from, bytes); });
}

void CpuStream::run_on_host(std::function<void()> work) { enqueue(std::move(work)); }

void CpuStream::record(Event& event) {
    const std::shared_ptr<CpuEvent::Progress> progress = CpuEvent::of(event).progress();
    const std::uint64_t recording = progress->begin_recording();
    enqueue([progress, recording] { progress->reach(recording); });
}

void CpuStream::wait_for(Event& event) {
    const std::shared_ptr<CpuEvent::Progress> progress = CpuEvent::of(event).progress();
    const std::uint64_t recording = progress->latest_recording();
    expect(recording > 0, "an event is armed before a stream waits for it");
    enqueue([progress, recording] { progress->wait_until_reached(recording); });
}

void CpuStream::synchronize() {
    CpuEvent idle(Device::Timing::Off);
    record(idle);
    idle.wait();
}

}  // namespace offramp
