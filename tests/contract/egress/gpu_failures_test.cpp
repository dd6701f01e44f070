// A GPU fails at each driver call of a short run in turn, in each of CUDA's ways. The process of the loop lives on, the
// call that notices returns CUDA's meaning, and no slab is published without its bytes.

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <offramp.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "producer/device/cuda_failure.hpp"
#include "tests/support/made_up_gpu/made_up_gpu.hpp"

namespace offramp {
namespace {

using support::GpuFault;
using Kind = GpuFault::Kind;

constexpr std::uint32_t kRows = 4;
constexpr std::uint64_t kBatches = 4;
constexpr int kMostCalls = 10'000;  // far more than a run makes
constexpr int kFirstCalls = 4;      // of a function; they come from different places
const std::string kRunId = "gpu-failures-" + std::to_string(::getpid());
constexpr std::chrono::duration<double> kLongest{60};  // a call that takes longer hangs

support::MadeUpGpu& gpu() {
    static support::MadeUpGpu& only = []() -> support::MadeUpGpu& {
        void* const file = ::dlopen(OFFRAMP_MADE_UP_GPU, RTLD_NOW);
        if (file == nullptr) throw std::runtime_error(::dlerror());
        return *reinterpret_cast<support::MadeUpGpu* (*)()>(::dlsym(file, "made_up_gpu"))();
    }();
    return only;
}

constexpr std::int64_t length_of(std::uint64_t row) { return static_cast<std::int64_t>(row) + 1; }
// Each byte of an item has this value.
constexpr std::byte value_of(std::uint64_t item) { return static_cast<std::byte>(item + 1); }

// A batch on the GPU: samples of several lengths, and one more byte for each.
struct Batch {
    explicit Batch(std::uint64_t number) {
        for (std::uint64_t row = 0; row < kRows; ++row)
            written.insert(written.end(), length_of(row), value_of(number * kRows + row));
        for (std::uint64_t row = 0; row < kRows; ++row) written.push_back(value_of(number * kRows + row));
        memory.resize(written.size());
    }
    // Like a model, work of the default stream writes it.
    void compute() { gpu().compute(memory.data(), written.data(), memory.size()); }
    // Like an allocator that hands the memory to the next tensor.
    void release() {
        was_in_use = gpu().uses(memory.data(), memory.size());
        std::ranges::fill(memory, std::byte{0xEE});
    }
    std::vector<std::byte> written, memory;
    bool was_in_use = false;  // when it was released
};

// A run that ends at the first error. Its consumer is in this process.
class SmallRun {
  public:
    explicit SmallRun(const std::string& folder) : run_dir_(folder + "/run") {}
    SmallRun(const SmallRun&) = delete;
    SmallRun& operator=(const SmallRun&) = delete;
    ~SmallRun() { close(); }

    bool open() { return worked(open_egress()); }
    // The first batch arrives.
    void begin() {
        consumer_ = std::thread([this] { consume(); });
        ASSERT_TRUE(worked(submit(0))) << text;
        std::unique_lock lock(mutex_);
        EXPECT_TRUE(arrived_.wait_for(lock, kLongest, [this] { return right.size() + wrong.size() == kRows; }));
    }
    void work() {
        for (std::uint64_t number = 1; number < kBatches && codes.empty(); ++number) worked(submit(number));
    }
    void submit_one() { worked(submit(1)); }
    // True if all is delivered.
    bool drain(std::chrono::duration<double> patience = kLongest) {
        return worked(offramp_egress_drain(egress_, patience.count(), &error_));
    }
    void close() {
        if (egress_ != nullptr) {
            EXPECT_EQ(offramp_egress_close(std::exchange(egress_, nullptr), &error_), OFFRAMP_OK) << error_.text;
        }
        if (consumer_.joinable()) consumer_.join();
    }

    bool released_early() const {
        return std::ranges::any_of(batches_, [](const auto& batch) { return batch->was_in_use; });
    }

    std::vector<std::int32_t> codes;            // of the calls that failed
    std::string text;                           // of the last one
    std::uint64_t rows_taken = 0;               // by submit()
    std::multiset<std::uint64_t> right, wrong;  // items that arrived, with their bytes and with others

  private:
    bool worked(std::int32_t code) {
        if (code == OFFRAMP_OK) return true;
        codes.push_back(code);
        text = error_.text;
        return false;
    }

    std::int32_t open_egress() {
        const std::array<std::int64_t, 2> shape{kRows, OFFRAMP_VARIABLE}, mark_shape{kRows, 1};
        const std::array tensors{tensor("values", shape), tensor("marks", mark_shape)};
        offramp_egress_options options{};
        options.size = sizeof options;
        options.run_dir = run_dir_.c_str();
        options.run_id = kRunId.c_str();
        options.tensors = tensors.data();
        options.tensor_count = tensors.size();
        options.device = "cuda";
        options.slabs = 2;
        options.samples_per_slab = kRows;
        options.slab_bytes = 4096;
        return offramp_egress_open(&options, &egress_, &error_);
    }
    static offramp_tensor tensor(const char* name, const std::array<std::int64_t, 2>& shape) {
        offramp_tensor tensor{};
        tensor.size = sizeof tensor;
        tensor.name = name;
        tensor.dtype = {1, 8, 1};
        tensor.dims = 2;
        tensor.shape = shape.data();
        return tensor;
    }

    std::int32_t submit(std::uint64_t number) {
        Batch& batch = *batches_.emplace_back(std::make_unique<Batch>(number));
        batch.compute();
        std::array<const void*, kRows> rows{};
        std::array<std::int64_t, kRows> lengths{};
        const std::byte* next = batch.memory.data();
        for (std::uint64_t row = 0; row < kRows; next += length_of(row++)) {
            rows[row] = next;
            lengths[row] = length_of(row);
        }
        const std::array<const void*, 2> tensors{rows[0], next};
        const std::array<const std::int64_t*, 2> extents{lengths.data(), nullptr};
        const std::array<const void* const*, 2> addresses{rows.data(), nullptr};
        offramp_batch given{};
        given.size = sizeof given;
        given.tensors = tensors.data();
        given.tensor_count = tensors.size();
        given.rows = kRows;
        given.owner = &batch;
        given.release = [](void* released) { static_cast<Batch*>(released)->release(); };
        given.timeout_seconds = kLongest.count();
        given.extents = extents.data();
        given.addresses = addresses.data();
        const std::int32_t code = offramp_egress_submit(egress_, &given, &error_);
        if (code == OFFRAMP_OK) rows_taken += kRows;
        return code;
    }

    void consume() {
        offramp_consumer_options options{};
        options.size = sizeof options;
        options.run_dir = run_dir_.c_str();
        options.takes_variable = 1;
        offramp_consumer* consumer = nullptr;
        offramp_error error{};
        ASSERT_EQ(offramp_consumer_open(&options, &consumer, &error), OFFRAMP_OK) << error.text;
        const auto process = [](void* run, const offramp_slab* slab) -> std::int32_t {
            static_cast<SmallRun*>(run)->note(*slab);
            return OFFRAMP_OK;
        };
        const std::int32_t code = offramp_consumer_run(consumer, process, this, &error);
        EXPECT_EQ(code, OFFRAMP_OK) << error.text;
        EXPECT_EQ(offramp_consumer_close(consumer, &error), OFFRAMP_OK) << error.text;
    }
    void note(const offramp_slab& slab) {
        const std::lock_guard lock(mutex_);
        for (std::uint32_t row = 0; row < slab.sample_count; ++row)
            (is_right(slab, row) ? right : wrong).insert(slab.samples[row].item);
        arrived_.notify_all();
    }
    static bool is_right(const offramp_slab& slab, std::uint32_t row) {
        const std::uint64_t item = slab.samples[row].item;
        const offramp_row& values = slab.tensors[0].rows[row];
        const auto* const bytes = static_cast<const std::byte*>(values.data);
        return static_cast<std::int64_t>(values.bytes) == length_of(item % kRows) &&
               std::all_of(bytes, bytes + values.bytes, [&](std::byte byte) { return byte == value_of(item); }) &&
               static_cast<const std::byte*>(slab.tensors[1].data)[row] == value_of(item);
    }

    const std::string run_dir_;
    std::vector<std::unique_ptr<Batch>> batches_;  // memory of the GPU outlives its work
    offramp_egress* egress_ = nullptr;
    offramp_error error_{};
    std::thread consumer_;
    std::mutex mutex_;  // guards the items while the consumer runs
    std::condition_variable arrived_;
};

std::ptrdiff_t entries_of(const char* folder) {
    return std::distance(std::filesystem::directory_iterator(folder), std::filesystem::directory_iterator());
}

// One of CUDA's errors, and what it does to later calls.
struct Way {
    const char* name;
    int error;
    Kind kind;
};
constexpr Way kLasting = {"no memory, from then on", kCudaOutOfMemory, Kind::Function};
constexpr Way kWays[] = {
    {"an uncorrectable ECC error", kCudaEccUncorrectable, Kind::Lost},
    {"no memory, once", kCudaOutOfMemory, Kind::Once},
    {"a failed kernel", kCudaLaunchFailed, Kind::Lost},
    {"a device that is unavailable", kCudaDeviceUnavailable, Kind::Once},
    {"a device that is gone", kCudaNoDevice, Kind::Lost},
    {"a refusal", kCudaNotSupported, Kind::Once},
    {"an unknown error", kCudaUnknown, Kind::Once},
    kLasting,
};

class GpuFailures : public testing::Test {
  protected:
    void SetUp() override {
        std::string pattern = std::filesystem::temp_directory_path() / "offramp-gpu-XXXXXX";
        ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
        folder_ = pattern;
        gpu().restart();
        EXPECT_TRUE(SmallRun(folder_).open());  // opens what a process keeps open, such as its log
    }
    void TearDown() override {
        gpu().restart();
        std::filesystem::remove_all(folder_);
    }

    enum class Step { Open, Work };
    // The function of that call; empty: the run makes fewer.
    std::string fails_at(Step step, int call, const Way& way) {
        const auto descriptors = entries_of("/proc/self/fd");
        const auto threads = entries_of("/proc/self/task");
        gpu().restart();
        SmallRun run(folder_);
        const bool is_delivered = deliver(run, step, {.at = call, .error = way.error, .kind = way.kind});
        run.close();
        const std::string function = gpu().faulty_function();
        SCOPED_TRACE("call " + std::to_string(call) + ", " + function + ", fails with " + way.name + ". " + run.text);
        // CUDA's meaning, except where the call has one purpose.
        const bool is_search = function == "cuInit" || function == "cuDeviceGetCount";
        const auto kind = is_search || (function == "cuMemHostRegister" && !is_sticky(way.error))
                              ? ErrorKind::DeviceUnsupported
                              : error_kind_of(way.error);
        EXPECT_THAT(run.codes, testing::Each(to_int(kind)));
        expect_sound(run, is_delivered);
        if (way.kind == Kind::Once) {
            EXPECT_LE(gpu().live_objects(), 1) << "one call can fail to free one object";
        }
        // A driver whose waits fail leaves nothing to wait with.
        if (way.kind != Kind::Function || function != "cuEventSynchronize") {
            EXPECT_FALSE(run.released_early()) << "tensors were released under a copy";
        }
        if (gpu().is_lost()) {
            EXPECT_FALSE(run.open());
            EXPECT_EQ(run.codes.back(), to_int(error_kind_of(way.error))) << "a new run in the lost context";
        }
        EXPECT_EQ(entries_of("/proc/self/fd"), descriptors);
        // A thread that was joined may still be listed.
        for (int look = 0; look < 10'000 && entries_of("/proc/self/task") != threads; ++look) ::usleep(1000);
        EXPECT_EQ(entries_of("/proc/self/task"), threads);
        return function;
    }
    // The same for a GPU that finishes nothing until a call has run out of time, or the run is being closed.
    bool stalls_at(int call, bool is_closed) {
        gpu().restart();
        SmallRun run(folder_);
        EXPECT_TRUE(run.open());
        run.begin();
        gpu().fail({.at = call, .kind = Kind::Stall});
        run.submit_one();
        bool is_delivered = false;
        if (is_closed) {
            std::atomic<bool> has_closed{false};
            std::thread closing([&] {
                run.close();
                has_closed = true;
            });
            while (!has_closed && gpu().waiting() == 0) std::this_thread::yield();
            gpu().resume();
            closing.join();
        } else {
            is_delivered = run.drain({});
            gpu().resume();
            is_delivered = is_delivered || run.drain();
            run.close();
            EXPECT_TRUE(is_delivered) << run.text;
            EXPECT_THAT(run.codes, testing::Each(static_cast<std::int32_t>(OFFRAMP_TIMEOUT))) << run.text;
        }
        SCOPED_TRACE("call " + std::to_string(call) + ", " + gpu().faulty_function() + ", stalls");
        expect_sound(run, is_delivered);
        EXPECT_FALSE(run.released_early()) << "tensors were released under a copy";
        EXPECT_EQ(gpu().live_objects(), 0);
        return !gpu().faulty_function().empty();
    }

    // One way after the other, and the first calls of each function in a lasting one; or every way at each call.
    void fail_everywhere(Step step) {
        std::map<std::string, int> calls_of;
        for (int call = 1; call < kMostCalls; ++call) {
            std::string function;
            if (in_every_way()) {
                for (const Way& way : kWays) function = fails_at(step, call, way);
            } else {
                function = fails_at(step, call, kWays[static_cast<std::size_t>(call) % std::size(kWays)]);
                if (!function.empty() && ++calls_of[function] <= kFirstCalls) fails_at(step, call, kLasting);
            }
            if (function.empty()) return;
        }
        ADD_FAILURE() << "the run does not end";
    }
    static bool in_every_way() { return std::getenv("OFFRAMP_TEST_EVERY_WAY") != nullptr; }

    std::string folder_;

  private:
    // True if all is delivered.
    static bool deliver(SmallRun& run, Step step, const GpuFault& fault) {
        if (step == Step::Open) {
            gpu().fail(fault);
            return run.open() && run.drain();
        }
        EXPECT_TRUE(run.open());
        run.begin();
        gpu().fail(fault);
        run.work();
        return run.drain();
    }
    static void expect_sound(const SmallRun& run, bool is_delivered) {
        EXPECT_THAT(run.wrong, testing::IsEmpty()) << "published without its bytes";
        EXPECT_EQ(run.right.size(), std::set(run.right.begin(), run.right.end()).size()) << "published twice";
        if (is_delivered) {
            EXPECT_THAT(run.right, testing::SizeIs(run.rows_taken));
        }
        EXPECT_THAT(gpu().violations(), testing::IsEmpty());
        for (const auto& entry : std::filesystem::directory_iterator("/dev/shm"))
            EXPECT_THAT(entry.path().filename(), testing::Not(testing::HasSubstr(kRunId)));
    }
};

TEST_F(GpuFailures, WithoutOneEachRowArrives) {
    gpu().restart();
    SmallRun run(folder_);
    EXPECT_TRUE(run.open());
    run.begin();
    run.work();
    EXPECT_TRUE(run.drain());
    run.close();
    EXPECT_THAT(run.codes, testing::IsEmpty()) << run.text;
    EXPECT_THAT(run.right, testing::SizeIs(kBatches * kRows));
    EXPECT_THAT(gpu().violations(), testing::IsEmpty());
    EXPECT_EQ(gpu().live_objects(), 0);
}

TEST_F(GpuFailures, WhileARunOpensEndAsItsError) { fail_everywhere(Step::Open); }

TEST_F(GpuFailures, WhileARunWorksEndAsItsError) { fail_everywhere(Step::Work); }

TEST_F(GpuFailures, ThatStallTheGpuLeaveCallsInTime) {
    for (const bool is_closed : {false, true})
        for (int call = 1; stalls_at(call, is_closed); ++call) ASSERT_LT(call, kMostCalls);
}

}  // namespace
}  // namespace offramp
