// Descriptors run out at any step of either end: a call fails with an error or works, and waiting work continues once
// descriptors are available.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <iterator>
#include <memory>
#include <offramp/consumer.hpp>
#include <offramp/egress.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/contract/abi/abi_world.hpp"
#include "tests/support/sanitizers.hpp"

namespace offramp::test {
namespace {

constexpr std::uint32_t kMostFree = 80;
constexpr std::uint32_t kSlabs = 4;

// While this lives, the process may open only `free` more descriptors.
class Scarce {
  public:
    explicit Scarce(std::uint32_t free) {
        ::getrlimit(RLIMIT_NOFILE, &before_);
        rlimit lowered = before_;
        lowered.rlim_cur = 0;
        for (std::uint32_t found = 0; found < free || is_open(lowered.rlim_cur); ++lowered.rlim_cur)
            if (!is_open(lowered.rlim_cur)) ++found;
        ::setrlimit(RLIMIT_NOFILE, &lowered);
    }
    Scarce(const Scarce&) = delete;
    Scarce& operator=(const Scarce&) = delete;
    ~Scarce() { ::setrlimit(RLIMIT_NOFILE, &before_); }

  private:
    static bool is_open(rlim_t fd) { return ::fcntl(static_cast<int>(fd), F_GETFD) != -1; }

    rlimit before_{};
};

// Starts consumers of a run one after another until one reaches the run's end, as a launcher does. Each is a child of a
// process without threads, so that it starts in a sound state.
class ForkServer {
  public:
    enum class Step : std::uint32_t { Never, Open, ForEach, InASlab };
    // The step at which the first consumer is left with `free` descriptors.
    struct Order {
        Step step = Step::Never;
        std::uint32_t free = 0;
    };

    explicit ForkServer(const std::string& run_dir) {
        EXPECT_EQ(::pipe2(orders_, O_CLOEXEC), 0);
        EXPECT_EQ(::pipe2(reports_, O_CLOEXEC), 0);
        pid_ = ::fork();
        if (pid_ != 0) return;
        ::close(orders_[1]);
        for (Order order; ::read(orders_[0], &order, sizeof order) == sizeof order;) {
            const Report report = report_of(run_dir, order);
            static_cast<void>(::write(reports_[1], &report, sizeof report));
        }
        ::_exit(0);
    }
    ForkServer(const ForkServer&) = delete;
    ForkServer& operator=(const ForkServer&) = delete;
    ~ForkServer() {
        ::close(orders_[1]);
        ::waitpid(pid_, nullptr, 0);
        for (const int end : {orders_[0], reports_[0], reports_[1]}) ::close(end);
    }

    void begin(const Order& order) const {
        EXPECT_EQ(::write(orders_[1], &order, sizeof order), static_cast<ssize_t>(sizeof order));
    }
    // How many consumers failed before one reached the end.
    int errors() const {
        Report report;
        EXPECT_EQ(::read(reports_[0], &report, sizeof report), static_cast<ssize_t>(sizeof report));
        EXPECT_EQ(report.signal, 0) << "a consumer died";
        return report.errors;
    }

  private:
    enum Code { kDone, kError, kOver, kOther };
    struct Report {
        int errors = 0;
        int signal = 0;
    };

    static Report report_of(const std::string& run_dir, Order order) {
        Report report;
        for (int code = kError; code == kError && report.signal == 0; order = {}) {
            const pid_t child = ::fork();
            if (child == 0) ::_exit(consume(run_dir, order));
            int status = 0;
            ::waitpid(child, &status, 0);
            code = WEXITSTATUS(status);
            if (WIFSIGNALED(status)) report.signal = WTERMSIG(status);
            if (code == kOther) report.signal = -1;
            report.errors += code == kDone ? 0 : 1;
        }
        return report;
    }
    static Code consume(const std::string& run_dir, const Order& order) {
        std::optional<Scarce> scarce;
        const auto reach = [&](Step step) {
            if (order.step == step && !scarce) scarce.emplace(order.free);
        };
        try {
            reach(Step::Open);
            Consumer consumer(run_dir);
            reach(Step::ForEach);
            consumer.for_each([&](const Slab&) { reach(Step::InASlab); });
            return kDone;
        } catch (const Error& problem) {
            if (problem.code() == OFFRAMP_NO_SUCH_RUN) return kOver;
            return problem.code() == OFFRAMP_INTERNAL ? kOther : kError;
        } catch (...) {
            return kOther;
        }
    }

    pid_t pid_ = -1;
    int orders_[2]{}, reports_[2]{};
};

class Descriptors : public AbiWorld {
  protected:
    void SetUp() override {
        AbiWorld::SetUp();
        fork_server_.emplace(run_dir_);  // before the run has threads
        if (has_address_sanitizer()) GTEST_SKIP() << "a sanitizer needs descriptors itself to judge an address";
    }
    void TearDown() override {
        fork_server_.reset();
        AbiWorld::TearDown();
    }

    std::unique_ptr<Egress> opened() const {
        return std::make_unique<Egress>(EgressOptions{.run_dir = run_dir_,
                                                      .tensors = {{"scores", float32, {4, 3}}, {"ids", uint8, {4, 2}}},
                                                      .device = "cpu",
                                                      .slabs = kSlabs});
    }
    // With the memory of all its slabs, which is made in the background.
    std::unique_ptr<Egress> opened_with_slabs() const {
        auto egress = opened();
        const auto is_slab = [](const std::string& name) { return name.find(".s") != std::string::npos; };
        while (std::ranges::count_if(left_in_shared_memory(), is_slab) < kSlabs) ::usleep(1000);
        return egress;
    }
    void submit(Egress& egress) const { egress.submit({made_.scores.data(), made_.ids.data()}, kRows, nullptr); }
    // True if the call succeeded.
    static bool worked(const std::function<void()>& call) {
        try {
            call();
            return true;
        } catch (const Error& problem) {
            EXPECT_NE(problem.code(), OFFRAMP_INTERNAL) << problem.what();
            return false;
        }
    }
    // Its descriptors and threads.
    static std::pair<std::ptrdiff_t, std::ptrdiff_t> held_by_this_process() {
        using Entries = std::filesystem::directory_iterator;
        return {std::distance(Entries("/proc/self/fd"), Entries()),
                std::distance(Entries("/proc/self/task"), Entries())};
    }
    // Without a descriptor the last sweep of a run is left to the next one.
    static std::vector<std::string> left_in_shared_memory() {
        const std::string own = "egress-" + std::to_string(::getpid()) + "-";
        std::vector<std::string> left;
        for (const auto& entry : std::filesystem::directory_iterator("/dev/shm"))
            if (entry.path().string().find(own) != std::string::npos) left.push_back(entry.path());
        return left;
    }

    std::optional<ForkServer> fork_server_;
    const Batch made_ = batch(0);
};

TEST_F(Descriptors, RunOutWhenAnEgressOpens) {
    std::uint32_t refused = 0;
    opened();  // opens what a process keeps open, such as its log
    const auto held = held_by_this_process();
    for (std::uint32_t free = 0; free <= kMostFree; ++free) {
        SCOPED_TRACE(free);
        // A thread that was joined may still be listed.
        for (int look = 0; look < 10'000 && held_by_this_process() != held; ++look) ::usleep(1000);
        EXPECT_EQ(held_by_this_process(), held) << "the last run left some of these";
        std::unique_ptr<Egress> egress;
        {
            const Scarce scarce(free);
            if (!worked([&] { egress = opened(); })) ++refused;
        }
        if (!egress) continue;
        fork_server_->begin({});
        submit(*egress);
        EXPECT_TRUE(egress->drain());
        EXPECT_EQ(fork_server_->errors(), 0);
    }
    EXPECT_GT(refused, 5U);
    EXPECT_LT(refused, kMostFree);
    EXPECT_EQ(left_in_shared_memory(), std::vector<std::string>{});
}

TEST_F(Descriptors, RunOutWhenAConsumerJoins) {
    for (std::uint32_t free = 0; free <= kMostFree; free += free < 16 ? 1 : 8) {
        SCOPED_TRACE(free);
        const auto egress = opened_with_slabs();
        {
            const Scarce scarce(free);
            fork_server_->begin({});
            for (int i = 0; i < 3; ++i) worked([&] { submit(*egress); });
            for (int i = 0; i < 50 && egress->stats().consumers == 0; ++i) ::usleep(1000);
            if (free > 16) {
                EXPECT_TRUE(egress->drain()) << "descriptors suffice";
            }
        }
        EXPECT_TRUE(egress->drain()) << "the consumer is admitted";
        EXPECT_EQ(egress->stats().samples_completed, 3U * kRows);
        fork_server_->errors();
    }
}

TEST_F(Descriptors, RunOutWhileAnEgressWorksAndCloses) {
    for (std::uint32_t free = 0; free <= kMostFree; free += free < 16 ? 1 : 8) {
        SCOPED_TRACE(free);
        auto egress = opened_with_slabs();
        fork_server_->begin({});
        while (egress->stats().consumers == 0) ::usleep(1000);
        {
            const Scarce scarce(free);
            for (int i = 0; i < 9; ++i) EXPECT_TRUE(worked([&] { submit(*egress); }));
            EXPECT_TRUE(egress->drain());
            worked([&] { egress.reset(); });
        }
        EXPECT_EQ(fork_server_->errors(), 0);
    }
}

TEST_F(Descriptors, RunOutAtEachStepOfAConsumer) {
    using Step = ForkServer::Step;
    for (const Step step : {Step::Open, Step::ForEach, Step::InASlab}) {
        int errors = 0;
        for (std::uint32_t free = 0; free <= kMostFree; free += free < 40 ? 1 : 8) {
            SCOPED_TRACE(free);
            const auto egress = opened();
            fork_server_->begin({step, free});
            for (int i = 0; i < 9; ++i) submit(*egress);
            EXPECT_TRUE(egress->drain());
            EXPECT_EQ(egress->stats().samples_dead_lettered, 0U) << "a lack of descriptors is not charged to a slab";
            errors += fork_server_->errors();
        }
        if (step != Step::InASlab) {  // no descriptor may be missing any more
            EXPECT_GT(errors, 0) << static_cast<std::uint32_t>(step);
        }
    }
}

}  // namespace
}  // namespace offramp::test
