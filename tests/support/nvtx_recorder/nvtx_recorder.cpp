// Records a program's NVTX calls, without a profiler: NVTX_INJECTION64_PATH=libofframp_nvtx_recorder.so, and
// NVTX_RECORDER_DIR, a folder. Each process writes PID.jsonl there, one line per event, in the order of recording:
//
//   {"event":"push","program":"offramp-producer","thread":12,"domain":"offramp","name":"compute","registered":true,"argb":"ff00ff00","payload":7,"ns":1}
//   {"event":"pop","program":"offramp-producer","thread":12,"domain":"offramp","ns":2}
//   {"event":"thread","program":"offramp-producer","thread":12,"name":"main","ns":3}
//
// "start" and "end" have a range's "id". With LD_PRELOAD it also records CUDA's profiler calls ("profiler_start",
// "profiler_stop") and the kernels that the program itself launches, each once, by its mangled name ({"event":"kernel",
// ..., "name":"_ZN..."}), and hands all of them on.

#define NVTX_NO_IMPL  // only the types, and those that NVTX exports to tools
#include <dlfcn.h>
#include <nvtx3/nvToolsExt.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <mutex>
#include <set>
#include <string>

// Handles are pointers to the recorder's texts.
struct nvtxDomainRegistration_st {
    std::string text;
};
struct nvtxStringRegistration_st {
    std::string text;
};

namespace {

std::string quoted(const char* text) {
    std::string out = "\"";
    for (; text != nullptr && *text != '\0'; ++text) {
        if (*text == '"' || *text == '\\') out += '\\';
        out += static_cast<unsigned char>(*text) < 0x20 ? ' ' : *text;
    }
    return out + '"';
}

// One per process; never destroyed, since other threads may record until exit.
struct Recorder {
    std::mutex mutex;
    std::FILE* file = nullptr;
    std::deque<nvtxDomainRegistration_st> domains;
    std::deque<nvtxStringRegistration_st> strings;
    std::set<const void*> kernels;
    std::uint64_t ranges = 0;

    Recorder() {
        const char* folder = std::getenv("NVTX_RECORDER_DIR");
        if (folder == nullptr) return;
        file = std::fopen((std::string(folder) + "/" + std::to_string(::getpid()) + ".jsonl").c_str(), "ae");
    }

    void note(const char* event, const std::string& more) {
        if (file == nullptr) return;
        timespec now{};
        ::clock_gettime(CLOCK_MONOTONIC, &now);
        const std::lock_guard lock(mutex);
        std::fprintf(file, "{\"event\":\"%s\",\"program\":%s,\"thread\":%ld%s,\"ns\":%lld}\n", event,
                     quoted(program_invocation_short_name).c_str(), ::syscall(SYS_gettid), more.c_str(),
                     static_cast<long long>(now.tv_sec) * 1'000'000'000 + now.tv_nsec);
        std::fflush(file);  // keeps the records of a killed program
    }
};

Recorder& recorder() {
    static auto* const instance = new Recorder;
    return *instance;
}

std::string in_domain(nvtxDomainHandle_t domain) {
    return ",\"domain\":" + quoted(domain == nullptr ? "" : domain->text.c_str());
}

std::string described(nvtxDomainHandle_t domain, const nvtxEventAttributes_t* attributes) {
    const bool registered = attributes->messageType == NVTX_MESSAGE_TYPE_REGISTERED;
    const char* const name = registered ? attributes->message.registered->text.c_str()
                             : attributes->messageType == NVTX_MESSAGE_TYPE_ASCII ? attributes->message.ascii
                                                                                  : "";
    char color[16] = "";
    if (attributes->colorType == NVTX_COLOR_ARGB) std::snprintf(color, sizeof color, "%08x", attributes->color);
    std::string text = in_domain(domain) + ",\"name\":" + quoted(name) +
                       ",\"registered\":" + (registered ? "true" : "false") + ",\"argb\":" + quoted(color);
    if (attributes->payloadType == NVTX_PAYLOAD_TYPE_UNSIGNED_INT64)
        text += ",\"payload\":" + std::to_string(attributes->payload.ullValue);
    return text;
}

int NVTX_API push(nvtxDomainHandle_t domain, const nvtxEventAttributes_t* attributes) {
    recorder().note("push", described(domain, attributes));
    return 0;
}
int NVTX_API pop(nvtxDomainHandle_t domain) {
    recorder().note("pop", in_domain(domain));
    return 0;
}
nvtxRangeId_t NVTX_API start(nvtxDomainHandle_t domain, const nvtxEventAttributes_t* attributes) {
    nvtxRangeId_t id = 0;
    {
        const std::lock_guard lock(recorder().mutex);
        id = ++recorder().ranges;
    }
    recorder().note("start", described(domain, attributes) + ",\"id\":" + std::to_string(id));
    return id;
}
void NVTX_API end(nvtxDomainHandle_t domain, nvtxRangeId_t id) {
    recorder().note("end", in_domain(domain) + ",\"id\":" + std::to_string(id));
}

nvtxDomainHandle_t NVTX_API create_domain(const char* name) {
    const std::lock_guard lock(recorder().mutex);
    return &recorder().domains.emplace_back(name);
}
nvtxStringHandle_t NVTX_API register_string(nvtxDomainHandle_t, const char* text) {
    const std::lock_guard lock(recorder().mutex);
    return &recorder().strings.emplace_back(text);
}
void NVTX_API name_thread(std::uint32_t thread, const char* name) {
    recorder().note("thread", ",\"named\":" + std::to_string(thread) + ",\"name\":" + quoted(name));
}

template <typename Function>
void subscribe(const NvtxExportTableCallbacks& exported, NvtxCallbackModule module, unsigned id, Function function) {
    NvtxFunctionTable table = nullptr;
    unsigned size = 0;
    if (exported.GetModuleFunctionTable(module, &table, &size) == 0 || id >= size) return;
    *table[id] = reinterpret_cast<NvtxFunctionPointer>(function);
}

// CUDA's function, which this library's hides. Errors: ends the process, because its calls would be lost.
template <typename Call>
Call behind(const char* call) {
    const auto next = reinterpret_cast<Call>(::dlsym(RTLD_NEXT, call));
    if (next == nullptr) {
        std::fprintf(stderr, "nvtx_recorder: no %s behind this library's\n", call);
        std::abort();
    }
    return next;
}

void note_kernel(const void* kernel) {
    {
        const std::lock_guard lock(recorder().mutex);
        if (!recorder().kernels.insert(kernel).second) return;
    }
    const char* name = nullptr;
    if (behind<int (*)(const char**, const void*)>("cudaFuncGetName")(&name, kernel) == 0)
        recorder().note("kernel", ",\"name\":" + quoted(name));
}

}  // namespace

extern "C" {

// NOLINTBEGIN(readability-identifier-naming): the names are NVTX's and CUDA's
__attribute__((visibility("default"))) int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get_table) {
    const auto* const exported = static_cast<const NvtxExportTableCallbacks*>(get_table(NVTX_ETID_CALLBACKS));
    if (exported == nullptr) return 0;
    subscribe(*exported, NVTX_CB_MODULE_CORE2, NVTX_CBID_CORE2_DomainRangePushEx, &push);
    subscribe(*exported, NVTX_CB_MODULE_CORE2, NVTX_CBID_CORE2_DomainRangePop, &pop);
    subscribe(*exported, NVTX_CB_MODULE_CORE2, NVTX_CBID_CORE2_DomainRangeStartEx, &start);
    subscribe(*exported, NVTX_CB_MODULE_CORE2, NVTX_CBID_CORE2_DomainRangeEnd, &end);
    subscribe(*exported, NVTX_CB_MODULE_CORE2, NVTX_CBID_CORE2_DomainRegisterStringA, &register_string);
    subscribe(*exported, NVTX_CB_MODULE_CORE2, NVTX_CBID_CORE2_DomainCreateA, &create_domain);
    subscribe(*exported, NVTX_CB_MODULE_CORE, NVTX_CBID_CORE_NameOsThreadA, &name_thread);
    return 1;
}

__attribute__((visibility("default"))) int cudaProfilerStart() {
    recorder().note("profiler_start", "");
    return behind<int (*)()>("cudaProfilerStart")();
}
__attribute__((visibility("default"))) int cudaProfilerStop() {
    recorder().note("profiler_stop", "");
    return behind<int (*)()>("cudaProfilerStop")();
}
__attribute__((visibility("default"))) int cudaLaunchKernelExC(const void* configuration, const void* kernel,
                                                               void** arguments) {
    note_kernel(kernel);
    return behind<int (*)(const void*, const void*, void**)>("cudaLaunchKernelExC")(configuration, kernel, arguments);
}
// NOLINTEND(readability-identifier-naming)

}  // extern "C"
