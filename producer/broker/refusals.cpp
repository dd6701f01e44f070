#include "producer/broker/refusals.hpp"

namespace offramp {
namespace {

const char* plain(RefusalReason reason) {
    switch (reason) {
        case RefusalReason::Version:
            return "another version";
        case RefusalReason::Nonce:
            return "another run";
        case RefusalReason::User:
            return "another user";
        case RefusalReason::ForeignProcess:
            return "a foreign process";
        case RefusalReason::Full:
            return "no place left";
        case RefusalReason::Ended:
            return "the run has ended";
        case RefusalReason::Work:
            return "other work";
    }
    return "?";
}

}  // namespace

std::string words(Refusal refusal) {
    switch (refusal) {
        case Refusal::ReleaseOfAnotherRun:
            return "release of another run";
        case Refusal::AnotherType:
            return "release message: another type";
        case Refusal::UnknownSession:
            return "release of an unknown session";
        case Refusal::ReleaseForOtherConsumer:
            return "release in another's name";
        case Refusal::BeyondAGap:
            return "release beyond a gap";
        case Refusal::ReasonWithoutRelease:
            return "reason without a release";
        case Refusal::WorkOfAnotherRun:
            return "work message of another run";
        case Refusal::UnknownConsumer:
            return "work message from an unknown consumer";
        case Refusal::WorkForOtherConsumer:
            return "work message in another's name";
        case Refusal::OutOfTurn:
            return "work message out of turn";
        case Refusal::MoreHoldingsThanRecords:
            return "hello with more holdings than records";
        case Refusal::DiedMeanwhile:
            return "peer died during admission";
        case Refusal::ChallengeNotAnswered:
            return "challenge not answered";
        case Refusal::ForeignSession:
            return "hello with a foreign session";
        case Refusal::PeerIsGone:
            return "ticket for a closed peer";
        case Refusal::TicketNotTaken:
            return "ticket not taken";
    }
    return "?";
}

std::string words(MessageChannel channel, ParseProblem problem) {
    return std::string(channel == MessageChannel::Work ? "work" : "release") +
           " message: " + std::string(to_string(problem));
}

std::string words(RefusalReason reason) { return std::string("refused: ") + plain(reason); }

}  // namespace offramp
