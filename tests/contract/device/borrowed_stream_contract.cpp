// A caller's stream, on every device: an event recorded after the caller's work waits for it, and the caller keeps the
// stream. The CPU has no streams: the caller's work is done when submitted.
#include <cstring>
#include <thread>

#include "tests/contract/device/device_contract.hpp"

namespace offramp {
namespace {

constexpr std::size_t kOutputBytes = std::size_t{8} << 20;
constexpr int kWork = 8;  // large copies before the one that counts, so that a missing wait shows

class BorrowedStreamContract : public DeviceContract {
  protected:
    void SetUp() override {
        DeviceContract::SetUp();
        if (IsSkipped()) return;
        output_ = device().allocate(kOutputBytes, "output");
        input_ = device().allocate_pinned_host(2 * kOutputBytes, "input");
        slab_ = device().allocate_pinned_host(kOutputBytes, "slab");
        egress_ = device().make_stream("egress");
        computed_ = device().make_event();
        std::memset(input_->data(), 0x5a, kOutputBytes);
    }
    // The parts' streams wait for their work, which uses the memory.
    void TearDown() override { egress_.reset(); }

    std::byte* give_input(std::uint32_t round) {
        std::byte* const input = input_->data() + kOutputBytes;
        std::memcpy(input, patterned_bytes(kOutputBytes, round).data(), kOutputBytes);
        return input;
    }
    // The caller computes its output: the bytes of `input`.
    void compute(Stream& callers, const std::byte* input) {
        for (int i = 0; i < kWork; ++i) callers.copy_to_device(output_->data(), input_->data(), kOutputBytes);
        callers.copy_to_device(output_->data(), input, kOutputBytes);
    }
    // The egress copies the output after the event, and finds these bytes.
    bool arrives(Event& computed, std::uint32_t round) {
        egress_->wait_for(computed);
        egress_->copy_to_host(slab_->data(), output_->data(), kOutputBytes);
        record_on(*egress_)->wait();
        return std::memcmp(slab_->data(), patterned_bytes(kOutputBytes, round).data(), kOutputBytes) == 0;
    }
    Event& computed() { return *computed_; }
    DeviceBuffer& output() { return *output_; }

  private:
    std::unique_ptr<DeviceBuffer> output_, input_, slab_;
    std::unique_ptr<Event> computed_;
    std::unique_ptr<Stream> egress_;
};

TEST_P(BorrowedStreamContract, AnEventWaitsForTheCallersWork) {
    const auto callers = device().make_stream("caller");
    const auto borrowed = device().borrow_stream(callers->native());
    EXPECT_EQ(borrowed->native(), callers->native());
    for (std::uint32_t round = 0; round < 4; ++round) {
        std::byte* const input = give_input(round);
        compute(device().is_gpu() ? *callers : *borrowed, input);
        borrowed->record(computed());
        EXPECT_TRUE(computed().armed());
        ASSERT_TRUE(arrives(computed(), round)) << "round " << round;
    }
}

TEST_P(BorrowedStreamContract, TheNullStreamIsTheDefaultOne) {
    const auto borrowed = device().borrow_stream(nullptr);
    EXPECT_EQ(borrowed->native() != nullptr, device().is_gpu());
    for (std::uint32_t round = 0; round < 4; ++round) {
        compute(*borrowed, give_input(round));
        borrowed->record(computed());
        ASSERT_TRUE(arrives(computed(), round)) << "round " << round;
    }
}

// The caller's thread has not called use_on_this_thread().
TEST_P(BorrowedStreamContract, ServesAThreadThatDoesNotUseTheDevice) {
    std::byte* const input = give_input(5);
    std::jthread([&] {
        const auto borrowed = device().borrow_stream(nullptr);
        compute(*borrowed, input);
        borrowed->record(computed());
        const auto dropped = device().make_event();
        borrowed->record(*dropped);
    }).join();
    EXPECT_TRUE(arrives(computed(), 5));
}

TEST_P(BorrowedStreamContract, WaitsForOthersAndRunsWorkOfTheHost) {
    const auto callers = device().make_stream("caller");
    const auto other = device().make_stream("other");
    const auto borrowed = device().borrow_stream(callers->native());
    const auto result = device().allocate_pinned_host(kOutputBytes, "result");
    const std::byte* const input = give_input(6);
    compute(*other, input);
    borrowed->wait_for(*record_on(*other));
    borrowed->copy_to_host(result->data(), output().data(), kOutputBytes);
    int difference = -1;
    borrowed->run_on_host([&] { difference = std::memcmp(result->data(), input, kOutputBytes); });
    borrowed->synchronize();
    EXPECT_EQ(difference, 0);
}

TEST_P(BorrowedStreamContract, LeavesTheStreamToTheCaller) {
    const auto callers = device().make_stream("caller");
    for (int round = 0; round < 3; ++round) device().borrow_stream(callers->native())->record(computed());
    compute(*callers, give_input(7));
    callers->record(computed());
    EXPECT_TRUE(arrives(computed(), 7));
}

using BorrowedStreamContractDeathTest = BorrowedStreamContract;

TEST_P(BorrowedStreamContractDeathTest, RefusesToWaitForAnUnarmedEvent) {
    EXPECT_DEATH(device().borrow_stream(nullptr)->wait_for(*device().make_event()),
                 "broken contract: an event is armed before a stream waits for it");
}

INSTANTIATE_TEST_SUITE_P(Device, BorrowedStreamContract, testing::ValuesIn(devices_under_test()), device_name);
INSTANTIATE_TEST_SUITE_P(Device, BorrowedStreamContractDeathTest, testing::ValuesIn(devices_under_test()), device_name);

}  // namespace
}  // namespace offramp
