#include "producer/device/cuda_work.hpp"

#include <memory>
#include <utility>

#include "producer/device/check.hpp"

namespace offramp {

void give_copy_to_host(driver::StreamHandle stream, std::byte* to, const void* from, std::size_t bytes) {
    if (bytes == 0) return;
    check(driver::api().copy_to_host(to, reinterpret_cast<driver::Address>(from), bytes, stream), "cuMemcpyDtoHAsync");
}

void give_copy_to_device(driver::StreamHandle stream, void* to, const std::byte* from, std::size_t bytes) {
    if (bytes == 0) return;
    check(driver::api().copy_to_device(reinterpret_cast<driver::Address>(to), from, bytes, stream),
          "cuMemcpyHtoDAsync");
}

void give_host_work(driver::StreamHandle stream, std::function<void()> work) {
    using Work = std::function<void()>;
    auto given = std::make_unique<Work>(std::move(work));
    const driver::HostFunction run = [](void* taken) { (*std::unique_ptr<Work>(static_cast<Work*>(taken)))(); };
    check(driver::api().launch_host_function(stream, run, given.get()), "cuLaunchHostFunc");
    static_cast<void>(given.release());  // run() owns it; after an error of the stream it leaks
}

void give_wait(driver::StreamHandle stream, const CudaEvent& awaited) {
    expect(awaited.armed(), "an event is armed before a stream waits for it");
    check(driver::api().stream_wait_event(stream, awaited.handle(), 0), "cuStreamWaitEvent");
}

}  // namespace offramp
