#include "producer/device/cpu_stream.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "common/base/error.hpp"
#include "common/base/trace.hpp"

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

void CpuStreamView::copy_to_host(std::byte* to, const void* from, std::size_t bytes) {
    if (bytes > 0) std::memcpy(to, from, bytes);
}

void CpuStreamView::copy_to_device(void* to, const std::byte* from, std::size_t bytes) {
    if (bytes > 0) std::memcpy(to, from, bytes);
}

void CpuStreamView::record(Event& event) {
    CpuEvent::Progress& progress = *CpuEvent::of(event).progress();
    progress.reach(progress.begin_recording());
}

void CpuStreamView::wait_for(Event& event) {
    CpuEvent& awaited = CpuEvent::of(event);
    expect(awaited.armed(), "an event is armed before a stream waits for it");
    awaited.wait();
}

std::uint64_t CpuEvent::Progress::begin_recording() {
    const std::scoped_lock lock(mutex);
    return ++recorded;
}

std::uint64_t CpuEvent::Progress::latest_recording() {
    const std::scoped_lock lock(mutex);
    return recorded;
}

void CpuEvent::Progress::reach(std::uint64_t recording) {
    {
        const std::scoped_lock lock(mutex);
        reached = std::max(reached, recording);
        reached_at = std::chrono::steady_clock::now();
    }
    changed.notify_all();
}

void CpuEvent::Progress::wait_until_reached(std::uint64_t recording) {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return reached >= recording; });
}

CpuEvent& CpuEvent::of(Event& event) {
    auto* const own = dynamic_cast<CpuEvent*>(&event);
    expect(own != nullptr, "a CPU stream is given events of a CPU device");
    return *own;
}

bool CpuEvent::armed() const { return progress_->latest_recording() > 0; }

bool CpuEvent::done() {
    const std::scoped_lock lock(progress_->mutex);
    return progress_->recorded > 0 && progress_->reached >= progress_->recorded;
}

void CpuEvent::wait() {
    const std::uint64_t recording = progress_->latest_recording();
    expect(recording > 0, "an event is armed before it is waited for");
    progress_->wait_until_reached(recording);
}

double CpuEvent::seconds_since(Event& earlier) {
    CpuEvent& start = of(earlier);
    expect(done() && start.done() && timed_ && start.timed_, "time is taken between two done events with timing");
    return std::chrono::duration<double>(progress_->reached_at - start.progress_->reached_at).count();
}

}  // namespace offramp
