#include "tests/bench/messages/bench_run.hpp"

#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <filesystem>

#include "common/base/error.hpp"
#include "common/shm/run_files.hpp"
#include "common/wire/slab_view.hpp"

namespace offramp {
namespace {

constexpr std::uint32_t kConsumerCapacity = 64;

std::string make_folder() {
    std::string path = std::filesystem::temp_directory_path() / "offramp-bench-XXXXXX";  // honours TMPDIR
    if (::mkdtemp(path.data()) == nullptr) throw SystemError("making the run directory " + path, errno);
    return path;
}

// With the folder for the run's sockets.
std::string prepared(const std::string& run_dir) {
    std::filesystem::create_directory(run_dir + "/" + run_files::kLive);
    return run_dir;
}

SlabLayout layout_of(std::size_t payload_bytes) {
    const std::array<std::int64_t, 2> shape{1, static_cast<std::int64_t>(payload_bytes)};
    return SlabLayout::make({TensorSpec::contiguous("out", kUInt8, shape)}, 1);
}

}  // namespace

BenchRun::BenchRun(std::uint32_t slabs, std::size_t payload_bytes, std::uint64_t work, const std::string& run_dir)
    : owns_run_dir_(run_dir.empty()),
      run_dir_(prepared(owns_run_dir_ ? make_folder() : run_dir)),
      endpoint_{.run_dir = run_dir_,
                .names = {"message-bench", RunNames::random_nonce()},
                .producer_pid = static_cast<std::uint64_t>(::getpid()),
                .epoch = 1},
      held_run_(endpoint_.names),
      layout_(layout_of(payload_bytes)),
      plan_(SpanPlan::make(slabs, layout_.slab_bytes)),
      exchange_(SlabExchange::make()),
      memory_(endpoint_.names, layout_, plan_, kConsumerCapacity, endpoint_.epoch, false),
      ledger_(SlabLedger::format(memory_.ledger(), endpoint_.epoch)),
      pool_(endpoint_.names, plan_, {}, false, {[this] { exchange_->wake(); }, [](std::exception_ptr) {}}) {
    pool_.wait_until_all_usable();
    const BrokerOptions options{.run_nonce = endpoint_.names.nonce, .work = work, .allowed_uids = {::geteuid()}};
    broker_ = std::make_unique<BrokerThread>(
        [this, options] {
            BrokerThread::Parts parts;
            parts.ports.push_back(std::make_unique<CountingPort>(make_zmq_broker_port(endpoint_), counts_));
            parts.broker = std::make_unique<Broker>(
                ledger_, *parts.ports.front(), *exchange_, watch_, clock_, memory_.heartbeats(),
                Broker::SlabMemory{[this](std::uint32_t slab) { return pool_.usable(slab); },
                                   [this](std::uint32_t slab) { return pool_.bytes_of(slab); }},
                options);
            return parts;
        },
        *exchange_, BrokerThread::Listener{});
    endpoint_.publish();
}

BenchRun::~BenchRun() {
    exchange_->stop();
    broker_.reset();
    std::error_code ignored;
    if (owns_run_dir_) std::filesystem::remove_all(run_dir_, ignored);
}

bool BenchRun::feed() {
    auto loan = exchange_->wait_for_slab();
    if (!loan) return false;
    SlabWriter writer(loan->bytes(), layout_);
    writer.begin({.run_nonce = endpoint_.names.nonce,
                  .epoch = endpoint_.epoch,
                  .slab = loan->slab(),
                  .generation = loan->generation()});
    const std::array<SampleEntry, 1> samples{{{.item = next_batch_}}};
    expect(writer.add_batch(next_batch_, 0, samples), "one sample fits");
    const std::uint64_t now = now_ns();
    writer.finish(now);
    writer.write_filled_at(now);
    exchange_->publish(std::move(*loan), {.first_batch = next_batch_,
                                          .samples = 1,
                                          .batches_ended = 1,
                                          .bytes = layout_.payload_bytes,
                                          .filled_at_ns = now});
    ++next_batch_;
    filled_at_ns_ = now;
    return true;
}

}  // namespace offramp
