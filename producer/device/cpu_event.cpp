#include "producer/device/cpu_event.hpp"

#include <algorithm>

#include "common/base/error.hpp"

namespace offramp {

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
