#include "common/base/trace.hpp"

#include <nvtx3/nvToolsExt.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cstdio>

namespace offramp {
namespace {

struct Look {
    const char* name;
    std::uint32_t argb;
};

constexpr std::array<Look, 10> kLooks{{{"Batch", 0xff0000ff},
                                       {"get batch", 0xffff0000},
                                       {"compute", 0xff00ff00},
                                       {"copy to CPU", 0xffffff00},
                                       {"queue CUDA event", 0xff00ffff},
                                       {"process output", 0xff00ffff},
                                       {"h2d", 0xffff8080},
                                       {"wait slab", 0xff808080},
                                       {"publish", 0xffc080ff},
                                       {"map", 0xffa0a0ff}}};

struct Registry {
    nvtxDomainHandle_t domain = nvtxDomainCreateA("offramp");
    std::array<nvtxStringHandle_t, kLooks.size()> names{};

    Registry() {
        for (std::size_t i = 0; i < kLooks.size(); ++i)
            names[i] = nvtxDomainRegisterStringA(domain, kLooks[i].name);
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

TraceRange::TraceRange(TraceName name) noexcept { push(name, nullptr); }
TraceRange::TraceRange(TraceName name, std::uint64_t batch) noexcept { push(name, &batch); }
TraceRange::~TraceRange() { nvtxDomainRangePop(registry().domain); }

void name_this_thread(const char* name) noexcept {
    registry();   // NVTX sets itself up at its first call, and two first calls race
    std::array<char, 16> kept{};
    std::snprintf(kept.data(), kept.size(), "%s", name);
    pthread_setname_np(pthread_self(), kept.data());
    nvtxNameOsThreadA(static_cast<std::uint32_t>(::syscall(SYS_gettid)), name);
}

}  // namespace offramp
