#include "common/wire/messages.hpp"

#include <algorithm>
#include <cstring>

#include "common/base/error.hpp"

namespace offramp {
namespace {

struct Form {
    std::size_t body_bytes;
    std::size_t record_bytes;  // 0: records are not allowed
};

std::optional<Form> form_of(MessageType type) {
    switch (type) {
        case MessageType::Hello:
            return Form{sizeof(Hello), sizeof(SlabTicket)};
        case MessageType::Challenge:
            return Form{sizeof(Challenge), 0};
        case MessageType::Answer:
            return Form{sizeof(Answer), 0};
        case MessageType::Welcome:
            return Form{sizeof(Welcome), 0};
        case MessageType::Refused:
            return Form{sizeof(Refused), 0};
        case MessageType::Credit:
            return Form{sizeof(Credit), 0};
        case MessageType::Tickets:
            return Form{sizeof(Tickets), sizeof(SlabTicket)};
        case MessageType::Releases:
            return Form{sizeof(Releases), sizeof(ReleaseRecord)};
        case MessageType::Failure:
            return Form{sizeof(Failure), 0};
        case MessageType::ReleaseAck:
            return Form{sizeof(ReleaseAck), 0};
        case MessageType::Drain:
            return Form{sizeof(Drain), 0};
        case MessageType::Disconnect:
            return Form{sizeof(Disconnect), 0};
    }
    return std::nullopt;
}

}  // namespace

Bytes encode_bytes(std::uint64_t run, MessageType type, std::span<const std::byte> body,
                   std::span<const std::byte> records, std::uint32_t count) {
    expect(count <= kMaxTicketsPerMessage, "a message carries at most kMaxTicketsPerMessage records");
    const std::size_t total = sizeof(MessageHeader) + body.size() + records.size();
    const MessageHeader header{kMessageMagic,
                               kMessageVersion,
                               static_cast<std::uint16_t>(type),
                               static_cast<std::uint32_t>(total),
                               count,
                               run};
    Bytes bytes(total);
    std::memcpy(bytes.data(), &header, sizeof header);
    std::copy(body.begin(), body.end(), bytes.begin() + sizeof header);
    std::copy(records.begin(), records.end(), bytes.begin() + static_cast<std::ptrdiff_t>(sizeof header + body.size()));
    return bytes;
}

ParsedMessage parse_message(std::span<const std::byte> bytes) {
    const auto refused = [](ParseProblem problem, std::uint16_t version = 0) {
        return ParsedMessage{.problem = problem, .version = version};
    };
    if (bytes.size() < sizeof(MessageHeader)) return refused(ParseProblem::TooShort);
    if (bytes.size() > kMaxMessageBytes) return refused(ParseProblem::TooLong);
    MessageHeader header;
    std::memcpy(&header, bytes.data(), sizeof header);
    if (header.magic != kMessageMagic) return refused(ParseProblem::Magic);
    if (header.version != kMessageVersion) return refused(ParseProblem::Version, header.version);
    const auto form = form_of(static_cast<MessageType>(header.type));
    if (!form) return refused(ParseProblem::Type, header.version);
    if (header.count > (form->record_bytes == 0 ? 0 : kMaxTicketsPerMessage))
        return refused(ParseProblem::Count, header.version);
    const std::size_t total = sizeof header + form->body_bytes + header.count * form->record_bytes;
    if (header.bytes != bytes.size() || total != bytes.size()) return refused(ParseProblem::Length, header.version);
    return {.version = header.version,
            .type = static_cast<MessageType>(header.type),
            .count = header.count,
            .run = header.run,
            .body = bytes.subspan(sizeof header, form->body_bytes),
            .records = bytes.subspan(sizeof header + form->body_bytes)};
}

std::string_view to_string(ParseProblem problem) {
    switch (problem) {
        case ParseProblem::None:
            return "none";
        case ParseProblem::TooShort:
            return "too short";
        case ParseProblem::TooLong:
            return "too long";
        case ParseProblem::Magic:
            return "not a message of this project";
        case ParseProblem::Version:
            return "another message version";
        case ParseProblem::Type:
            return "unknown type";
        case ParseProblem::Length:
            return "length does not fit the type";
        case ParseProblem::Count:
            return "too many records";
    }
    return "?";
}

void copy_bytes(std::span<const std::byte> from, void* to) {
    if (!from.empty()) std::memcpy(to, from.data(), from.size());
}

}  // namespace offramp
