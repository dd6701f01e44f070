#include "common/base/trace.hpp"

#include <nvtx3/nvToolsExt.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cstdio>

#include "common/base/clock.hpp"
#include "common/base/trace_recording.hpp"

namespace offramp {
namespace {

struct Look {
    const char* name;  // NVTX's; the article's own words
    const char* recorded_name;
    std::uint32_t argb;
};

constexpr std::array<Look, 15> kLooks{{{"Batch", "batch", 0xff0000ff},
                                       {"get batch", "get_batch", 0xffff0000},
                                       {"compute", "compute", 0xff00ff00},
                                       {"copy to CPU", "copy_to_cpu", 0xffffff00},
                                       {"queue CUDA event", "queue_cuda_event", 0xff00ffff},
                                       {"queue output", "queue_output", 0xff00ffff},
                                       {"process output", "process_output", 0xff00ffff},
                                       {"capture", "capture", 0xffffffff},
                                       {"decode", "decode", 0xffff4040},
                                       {"stage batch", "stage_batch", 0xffffb0b0},
                                       {"h2d", "h2d", 0xffff8080},
                                       {"wait slab", "wait_slab", 0xff808080},
                                       {"publish", "publish", 0xffc080ff},
                                       {"map", "map", 0xffa0a0ff},
                                       {"unmap", "unmap", 0xffa0a0ff}}};

struct Registry {
    nvtxDomainHandle_t domain = nvtxDomainCreateA("offramp");
    std::array<nvtxStringHandle_t, kLooks.size()> names{};

    Registry() {
        for (std::size_t i = 0; i < kLooks.size(); ++i) names[i] = nvtxDomainRegisterStringA(domain, kLooks[i].name);
    }
};

const Registry& registry() {
    static const Registry instance;
    return instance;
}

void push(TraceName name, const std::uint64_t* batch) noexcept {
    const auto index = static_cast<std::size_t>(name);
    nvtxEventAttributes_t attributes{};
    attributes.version = NVTX_VERSION;
    attributes.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
    attributes.colorType = NVTX_COLOR_ARGB;
    attributes.color = kLooks[index].argb;
    std::array<char, 32> text{};
    if (name == TraceName::Batch && batch != nullptr) {
        std::snprintf(text.data(), text.size(), "Batch %llu", static_cast<unsigned long long>(*batch));
        attributes.messageType = NVTX_MESSAGE_TYPE_ASCII;
        attributes.message.ascii = text.data();
    } else {
        attributes.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
        attributes.message.registered = registry().names[index];
    }
    if (batch != nullptr) {
        attributes.payloadType = NVTX_PAYLOAD_TYPE_UNSIGNED_INT64;
        attributes.payload.ullValue = *batch;
    }
    nvtxDomainRangePushEx(registry().domain, &attributes);
}

}  // namespace

TraceRange::TraceRange(TraceName name) noexcept : name_(name), began_ns_(recording() ? now_ns() : 0) {
    push(name, nullptr);
}

TraceRange::TraceRange(TraceName name, std::uint64_t batch) noexcept
    : name_(name), batch_(batch), began_ns_(recording() ? now_ns() : 0) {
    push(name, &batch);
}

TraceRange::~TraceRange() {
    nvtxDomainRangePop(registry().domain);
    if (began_ns_ != 0)
        record_range(kLooks[static_cast<std::size_t>(name_)].recorded_name, batch_, began_ns_, now_ns());
}

void name_this_thread(const char* name) noexcept {
    registry();  // NVTX sets itself up at its first call, and two first calls race
    std::array<char, 16> kept{};
    std::snprintf(kept.data(), kept.size(), "%s", name);
    pthread_setname_np(pthread_self(), kept.data());
    nvtxNameOsThreadA(static_cast<std::uint32_t>(::syscall(SYS_gettid)), name);
    set_recording_lane(name);
}

}  // namespace offramp
