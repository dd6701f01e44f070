// A library must not disturb its host process's CUDA contexts or captures of CUDA graphs.
#include <dlfcn.h>

#include <stdexcept>
#include <thread>

#include "producer/device/cuda_failure.hpp"
#include "producer/device/driver_api.hpp"
#include "producer/device/gpu_search.hpp"
#include "tests/contract/device/device_contract.hpp"

namespace offramp {
namespace {

constexpr std::size_t kSmallBytes = std::size_t{1} << 20;
constexpr int kCaptureGlobal = 0;  // a capture's default mode

template <class Function>
Function* driver_function(const char* name) {
    void* const function = ::dlsym(::dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD), name);
    if (function == nullptr) throw std::runtime_error(std::string("the driver has no ") + name);
    return reinterpret_cast<Function*>(function);
}

driver::Context current_context() {
    driver::Context context = nullptr;
    EXPECT_EQ(driver_function<int(driver::Context*)>("cuCtxGetCurrent")(&context), 0);
    return context;
}

class CallersProcess : public testing::Test {
  protected:
    void SetUp() override {
        const GpuSearch search = find_gpus();
        if (search.count == 0) GTEST_SKIP() << search.obstacle;
        device_ = open_device("cuda");
        std::jthread([this] {
            device_->use_on_this_thread();
            context_ = current_context();
        }).join();
    }

    // A thread as in a caller's program: the context is current, and captures are strict.
    template <class Work>
    void on_a_callers_thread(Work work) {
        std::jthread([&] {
            ASSERT_EQ(driver::api().context_set_current(context_), 0);
            work();
        }).join();
    }

    static void begin_capture(void* stream) {
        const auto begin = driver_function<int(driver::StreamHandle, int)>("cuStreamBeginCapture_v2");
        ASSERT_EQ(begin(static_cast<driver::StreamHandle>(stream), kCaptureGlobal), 0);
    }
    // True if the graph was captured undisturbed.
    static bool end_capture(void* stream) {
        void* graph = nullptr;
        const auto end = driver_function<int(driver::StreamHandle, void**)>("cuStreamEndCapture");
        const int result = end(static_cast<driver::StreamHandle>(stream), &graph);
        if (graph != nullptr) driver_function<int(void*)>("cuGraphDestroy")(graph);
        return result == 0 && graph != nullptr;
    }

    static void expect_refused(Stream& stream, Event& event) {
        try {
            stream.record(event);
            ADD_FAILURE() << "an event became part of the caller's graph";
        } catch (const CudaError& error) {
            EXPECT_EQ(error.kind(), ErrorKind::Internal) << error.what();
            EXPECT_NE(std::string(error.what()).find("captured into a CUDA graph"), std::string::npos) << error.what();
        }
        EXPECT_FALSE(event.armed());
    }

    std::unique_ptr<Device> device_;
    driver::Context context_ = nullptr;
};

TEST_F(CallersProcess, AThreadKeepsTheContextThatItHas) {
    std::jthread([&] {
        EXPECT_EQ(current_context(), nullptr);
        {
            const auto device = open_device("cuda");
            EXPECT_EQ(device->info().kind, "cuda");
            const auto memory = device->allocate(kSmallBytes, "memory");
            const auto pinned = device->allocate_pinned_host(kSmallBytes, "pinned");
            const auto stream = device->make_stream("stream");
            const auto event = device->make_event();
            const auto borrowed = device->borrow_stream(nullptr);
            borrowed->record(*event);
            borrowed->synchronize();
            EXPECT_TRUE(device->prove_pinned({pinned->data(), kSmallBytes}).registered);
            EXPECT_EQ(current_context(), nullptr);
        }
        EXPECT_EQ(current_context(), nullptr);
        device_->use_on_this_thread();
        EXPECT_EQ(current_context(), context_);
    }).join();
}

TEST_F(CallersProcess, OurThreadsDoNotDisturbACapture) {
    const auto callers = device_->make_stream("caller");
    on_a_callers_thread([&] {
        begin_capture(callers->native());
        std::vector<std::unique_ptr<DeviceBuffer>> buffers;  // kept until the capture has ended
        std::jthread([&] {
            device_->use_on_this_thread();
            buffers.push_back(device_->allocate(kSmallBytes, "memory"));
            buffers.push_back(device_->allocate_pinned_host(kSmallBytes, "pinned"));
            const auto egress = device_->make_stream("egress");
            const auto event = device_->make_event();
            egress->copy_to_host(buffers[1]->data(), buffers[0]->data(), kSmallBytes);
            egress->record(*event);
            event->wait();
            EXPECT_TRUE(event->done());
        }).join();
        EXPECT_TRUE(end_capture(callers->native()));
    });
}

// Work that the caller's own thread asks for does not enter its capture.
TEST_F(CallersProcess, ObjectsMadeOnACallersThreadDoNotDisturbACapture) {
    const auto callers = device_->make_stream("caller");
    on_a_callers_thread([&] {
        begin_capture(callers->native());
        const auto memory = device_->allocate(kSmallBytes, "memory");
        const auto event = device_->make_event();
        EXPECT_TRUE(end_capture(callers->native()));
    });
}

// The counterexample: the same work without that care spoils the capture.
TEST_F(CallersProcess, AThreadThatTakesNoCareSpoilsACapture) {
    const auto callers = device_->make_stream("caller");
    on_a_callers_thread([&] {
        begin_capture(callers->native());
        on_a_callers_thread([] {
            driver::Address memory = 0;
            EXPECT_EQ(driver::api().memory_allocate(&memory, kSmallBytes), driver::kCaptureUnsupported);
        });
        EXPECT_FALSE(end_capture(callers->native()));
    });
}

TEST_F(CallersProcess, RefusesAStreamUnderCaptureAndItsCaptureContinues) {
    const auto callers = device_->make_stream("caller");
    const auto borrowed = device_->borrow_stream(callers->native());
    const auto event = device_->make_event();
    on_a_callers_thread([&] {
        begin_capture(callers->native());
        expect_refused(*borrowed, *event);
        EXPECT_TRUE(end_capture(callers->native()));
        borrowed->record(*event);
        event->wait();
    });
}

TEST_F(CallersProcess, RefusesTheDefaultStreamDuringABlockingCapture) {
    const auto borrowed = device_->borrow_stream(nullptr);
    const auto event = device_->make_event();
    on_a_callers_thread([&] {
        driver::StreamHandle blocking = nullptr;
        ASSERT_EQ(driver::api().stream_create(&blocking, 0, 0), 0);
        begin_capture(blocking);
        expect_refused(*borrowed, *event);
        EXPECT_TRUE(end_capture(blocking));
        borrowed->record(*event);
        event->wait();
        EXPECT_EQ(driver::api().stream_destroy(blocking), 0);
    });
}

}  // namespace
}  // namespace offramp
