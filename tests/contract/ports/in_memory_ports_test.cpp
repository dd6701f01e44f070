#include <gtest/gtest.h>

#include "common/base/error.hpp"
#include "tests/contract/ports/ports_contract.hpp"
#include "tests/support/in_memory_ports/in_memory_ports.hpp"

namespace offramp {
namespace {

using namespace support;

class HubPlace final : public PortsPlace {
  public:
    std::unique_ptr<BrokerPort> broker() override { return hub_.broker_port(); }
    std::unique_ptr<ConsumerPort> consumer() override { return hub_.consumer_port(credentials()); }
    PeerCredentials credentials() const override { return {.pid = 4711, .uid = 1000, .gid = 100}; }

  private:
    InMemoryHub hub_;
};

INSTANTIATE_TEST_SUITE_P(InMemory, PortsContract,
                         ::testing::Values(PortsImplementation{"hub", [] { return std::make_unique<HubPlace>(); }}));

// Behaviour that depends on timing over sockets and is certain here.
TEST(InMemoryPorts, HoldExactlyTheirCapacity) {
    InMemoryHub hub(2);
    const auto broker = hub.broker_port();
    const auto consumer = hub.consumer_port({.pid = 1, .uid = 2, .gid = 3});
    EXPECT_TRUE(consumer->send_work(bytes_of("1")));
    EXPECT_TRUE(consumer->send_work(bytes_of("2")));
    EXPECT_FALSE(consumer->send_work(bytes_of("3")));
    EXPECT_TRUE(consumer->send_release(bytes_of("1"))) << "each channel has its own queue";
    Inbound inbound;
    ASSERT_TRUE(broker->try_receive_work(inbound));
    EXPECT_TRUE(consumer->send_work(bytes_of("3")));
    EXPECT_EQ(broker->send(inbound.peer, bytes_of("a")), SendOutcome::Sent);
    EXPECT_EQ(broker->send(inbound.peer, bytes_of("b")), SendOutcome::Sent);
    EXPECT_EQ(broker->send(inbound.peer, bytes_of("c")), SendOutcome::QueueFull);
}

TEST(InMemoryPorts, KeepWhatArrivedBeforeTheSenderLeft) {
    InMemoryHub hub;
    const auto broker = hub.broker_port();
    auto consumer = hub.consumer_port({});
    consumer->send_work(bytes_of("disconnected"));
    consumer->send_release(bytes_of("release"));
    consumer.reset();
    Inbound inbound;
    ASSERT_TRUE(broker->try_receive_work(inbound));
    EXPECT_EQ(text_of(inbound.bytes), "disconnected");
    EXPECT_EQ(broker->send(inbound.peer, bytes_of("x")), SendOutcome::PeerGone);
    ASSERT_TRUE(broker->try_receive_release(inbound));
    EXPECT_FALSE(broker->try_receive_release(inbound));
}

TEST(InMemoryPorts, ReceiveConsumersInTurn) {
    InMemoryHub hub;
    const auto broker = hub.broker_port();
    const auto loud = hub.consumer_port({.pid = 1});
    const auto quiet = hub.consumer_port({.pid = 2});
    for (int i = 0; i < 10; ++i) loud->send_work(bytes_of("!"));
    quiet->send_work(bytes_of("?"));
    Inbound inbound;
    ASSERT_TRUE(broker->try_receive_work(inbound));
    EXPECT_EQ(inbound.credentials.pid, 1);
    ASSERT_TRUE(broker->try_receive_work(inbound));
    EXPECT_EQ(inbound.credentials.pid, 2);
}

TEST(InMemoryPorts, LoseUnreadMessagesWithTheirBroker) {
    InMemoryHub hub;
    auto broker = hub.broker_port();
    const auto consumer = hub.consumer_port({});
    consumer->send_work(bytes_of("lost"));
    broker.reset();
    consumer->send_work(bytes_of("kept"));
    broker = hub.broker_port();
    Inbound inbound;
    ASSERT_TRUE(broker->try_receive_work(inbound));
    EXPECT_EQ(text_of(inbound.bytes), "kept");
    EXPECT_FALSE(broker->try_receive_work(inbound));
}

TEST(InMemoryPorts, DropOnlyTheMessageThatIsTooLarge) {
    InMemoryHub hub;
    const auto broker = hub.broker_port();
    const auto consumer = hub.consumer_port({});
    consumer->send_work(Bytes(kMaxMessageBytes + 1));
    consumer->send_work(bytes_of("small"));
    Inbound inbound;
    ASSERT_TRUE(broker->try_receive_work(inbound));
    EXPECT_EQ(text_of(inbound.bytes), "small");
    EXPECT_EQ(broker->send(inbound.peer, Bytes(kMaxMessageBytes + 1)), SendOutcome::Sent);
    EXPECT_EQ(broker->send(inbound.peer, bytes_of("answer")), SendOutcome::Sent);
    EXPECT_EQ(text_of(next(*consumer).value()), "answer");
}

}  // namespace
}  // namespace offramp
