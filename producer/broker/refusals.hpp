#pragma once

#include <string>

#include "common/wire/messages.hpp"

namespace offramp {

// Reasons why the broker refuses a message or cannot send one: counted under these words in status.json and the summary
// (`refused`).
enum class Refusal {
    // releases
    ReleaseOfAnotherRun,
    AnotherType,
    UnknownSession,
    ReleaseForOtherConsumer,
    BeyondAGap,
    ReasonWithoutRelease,
    // the work channel
    WorkOfAnotherRun,
    UnknownConsumer,
    WorkForOtherConsumer,
    OutOfTurn,
    MoreHoldingsThanRecords,
    // admission
    DiedMeanwhile,
    ChallengeNotAnswered,
    ForeignSession,
    // tickets
    PeerIsGone,
    TicketNotTaken,
};
enum class MessageChannel { Work, Releases };

std::string words(Refusal refusal);
// For a message that could not be parsed.
std::string words(MessageChannel channel, ParseProblem problem);
// For a consumer that gets the reason why it is not admitted.
std::string words(RefusalReason reason);

}  // namespace offramp
