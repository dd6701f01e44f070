#include "producer/device/cpu_stream_view.hpp"

#include <cstring>

#include "common/base/error.hpp"
#include "producer/device/cpu_event.hpp"

namespace offramp {

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

}  // namespace offramp
