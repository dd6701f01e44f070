#pragma once

#include <string>

#include "common/wire/messages.hpp"

namespace offramp {

// What the broker does not take, or cannot send: counted under these words, which status.json and the summary have
// (`refused`).
enum class Refusal {
    // of releases
    ReleaseOfAnotherRun,
    AnotherType,
    UnknownSession,
    ReleaseForOtherConsumer,
    BeyondAGap,
    ReasonWithoutRelease,
    // of the work channel
    WorkOfAnotherRun,
    UnknownConsumer,
    WorkForOtherConsumer,
    OutOfTurn,
    MoreHoldingsThanRecords,
    // of whoever asks to be let in
    DiedMeanwhile,
    ChallengeNotAnswered,
    ForeignSession,
    // of tickets
    PeerIsGone,
    TicketNotTaken,
};
enum class MessageChannel { Work, Releases };

std::string words(Refusal refusal);
// Of a message that could not be parsed.
std::string words(MessageChannel channel, ParseProblem problem);
// Of a consumer that is told why it is not let in.
std::string words(RefusalReason reason);

}  // namespace offramp
