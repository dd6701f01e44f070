#include "tests/simulation/simulated_machine.hpp"

#include <spdlog/fmt/fmt.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/error.hpp"
#include "tests/simulation/plan.hpp"

namespace offramp {

// Instead of ending this process: a broken contract is a history that failed.
void fail_expectation(std::string_view contract, std::source_location where) {
    throw simulation::Violation(fmt::format("{}:{}: broken contract: {}", where.file_name(), where.line(), contract));
}

}  // namespace offramp

namespace offramp::simulation {
namespace {

constexpr std::uint64_t kNonce = 0x0ff7a3b100000001ULL;

thread_local Fuse* acting = nullptr;  // no other thread of a process dies alone
std::function<void(std::string_view)> looks;
std::atomic<bool> disk_is_full{false};
std::atomic<std::uint64_t> refused_writes{0};
SharedObjects* objects = nullptr;  // of the current history
std::array<std::array<HeartbeatRecord, kCapacity>, kGroups> heartbeats_at_death;

RunNames names_for(const Setup& setup) {
    return {.run_id = fmt::format("simulation-{}-{}-{}", ::getpid(), setup.slabs, setup.groups), .nonce = kNonce};
}

SlabLayout small_layout() {
    const std::int64_t shape[] = {kBatch, 16};
    return SlabLayout::make({TensorSpec::contiguous("payload", kUInt8, shape)}, kBatch);
}

// Descriptors are reused, as a history has few processes and there are many histories.
std::vector<int>& spare_fds() {
    static std::vector<int> fds;
    return fds;
}

}  // namespace
}  // namespace offramp::simulation

// Found by name: common/base/failpoint.cpp.
extern "C" __attribute__((visibility("default"))) void offramp_failpoint_reached(const char* name) {
    using namespace offramp::simulation;
    if (acting == nullptr) {
        if (!disk_is_full || name != std::string_view("spill.written")) return;
        ++refused_writes;
        throw std::runtime_error("no space left");
    }
    if (looks) looks(name);
    if (acting->left == 0 || --acting->left > 0) return;
    for (std::uint32_t group = 0; group < objects->groups(); ++group)
        std::ranges::copy(objects->memory(group).heartbeats(), heartbeats_at_death[group].begin());
    throw Died{name};
}

namespace offramp::simulation {

Acting::Acting(Fuse& fuse) : before_(std::exchange(acting, &fuse)) {}
Acting::~Acting() { acting = before_; }

const HeartbeatRecord& heartbeat_at_death(std::uint32_t group, std::uint32_t consumer_index) {
    return heartbeats_at_death[group][consumer_index];
}

void at_failpoints(std::function<void(std::string_view)> look) { looks = std::move(look); }
void set_disk_full(bool is_full) { disk_is_full = is_full; }
bool is_disk_full() { return disk_is_full; }
std::uint64_t take_refused_writes() { return refused_writes.exchange(0); }

std::uint64_t payload_word(std::uint64_t batch, std::size_t word) { return Random((batch << 8) | word).next(); }
std::uint32_t empty_row(std::uint64_t batch) { return batch % 5 == 3 ? 1 : kBatch; }

// --- shared memory ---

std::vector<ConsumerGroup> groups_of(const Setup& setup) {
    const auto policy = [&](std::uint32_t group, bool optional) {
        return GroupPolicy{.optional = optional, .when_full = setup.when_full[group]};
    };
    if (setup.groups == 1) return {{.name = "", .policy = policy(0, false)}};
    return {{.name = "masks", .policy = policy(0, false)},
            {.name = "arrays", .policy = policy(1, false)},
            {.name = "preview", .policy = policy(2, true)}};
}

SharedObjects::SharedObjects(const Setup& setup)
    : run_(names_for(setup)),
      layout_(small_layout()),
      spans_(SpanPlan::make(setup.slabs, layout_.slab_bytes, 1)),
      span_(SharedRegion::create(run_.names().span(0), spans_.span_bytes(0))) {
    for (const ConsumerGroup& group : groups_of(setup)) {
        memory_.emplace_back(run_.names().of_group(group.name), layout_, spans_, kCapacity, 1, false);
        mappings_.push_back(SlabMappings::attach(run_.names().of_group(group.name)));
        first_headers_.push_back(header(static_cast<std::uint32_t>(memory_.size()) - 1));
    }
}

LedgerHeader& SharedObjects::header(std::uint32_t group) {
    return *reinterpret_cast<LedgerHeader*>(reinterpret_cast<std::byte*>(memory_[group].ledger().consumers.data()) -
                                            sizeof(LedgerHeader));
}

void SharedObjects::reset() {
    objects = this;
    for (std::uint32_t group = 0; group < groups(); ++group) {
        header(group) = first_headers_[group];
        memory_[group].progress() = {};
        for (std::uint32_t i = 0; i < kCapacity; ++i) mappings_[group].heartbeat(i) = {};
    }
    memory_.front().progress().producers = 1;
    for (std::uint32_t i = 0; i < spans_.slab_count; ++i)
        std::ranges::fill(slab(i).first(layout_.header_bytes + kPayloadWords * 8), std::byte{});
    for (const auto& entry : std::filesystem::directory_iterator(folder_.path()))
        std::filesystem::remove_all(entry.path());
}

// --- processes ---

SimulatedWatch::~SimulatedWatch() {
    for (const auto& [pid, process] : processes_) {
        std::uint64_t ignored = 0;
        if (process.announced) [[maybe_unused]]
            const auto got = ::read(process.fd, &ignored, sizeof ignored);
        spare_fds().push_back(process.fd);
    }
}

void SimulatedWatch::begin(pid_t pid) {
    if (spare_fds().empty()) spare_fds().push_back(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    processes_[pid].fd = spare_fds().back();
    spare_fds().pop_back();
}

void SimulatedWatch::announce_death(pid_t pid) {
    Process& process = processes_.at(pid);
    const std::uint64_t one = 1;
    if (!std::exchange(process.announced, true)) [[maybe_unused]]
        const auto put = ::write(process.fd, &one, sizeof one);
}

std::optional<WatchedProcess> SimulatedWatch::open(pid_t pid) {
    const Process& process = processes_.at(pid);
    if (process.announced) return std::nullopt;
    UniqueFd fd(::dup(process.fd));
    if (!fd) throw SystemError("dup", errno);
    watched_[fd.get()] = pid;
    return WatchedProcess{std::move(fd), static_cast<std::uint64_t>(pid) * 10};
}

int SimulatedWatch::kill(int pidfd) {
    on_kill(watched_.at(pidfd));
    return 0;
}

}  // namespace offramp::simulation
