#include "consumer/session/producer_loss.hpp"

#include <spdlog/spdlog.h>

#include "common/base/failpoint.hpp"

namespace offramp {

void ProducerLoss::note_death() {
    session_.step();
    died_at_ = clock_.now();
}

// A leaving consumer ends, because the death answers its request. A consumer that owes the dead producer nothing and
// was asked to end, or is drained, ends in order: most often the producer ended before it admitted the consumer.
ProducerLoss::Verdict ProducerLoss::verdict(const Requests& requests) const {
    const bool draining = session_.state() == ConsumerSession::State::Draining;
    const bool over = (draining || requests.asked_to_end) && session_.settled();
    const bool leaving = draining || requests.asked_to_end || requests.launcher_gone;
    const bool timed_out =
        next_producer_.search == nullptr || (!has_launcher_ && clock_.now() - *died_at_ >= next_producer_.patience);
    const bool at_work = session_.has_pending() && next_producer_.search != nullptr;
    if (!leaving && (!timed_out || at_work)) return Verdict::Continue;
    if (over)
        spdlog::info("the producer has ended, and this consumer holds none of its slabs: ending");
    else
        spdlog::error("the producer is dead{}", leaving ? "" : ", and no other producer took over");
    return over ? Verdict::EndInOrder : Verdict::EndAlone;
}

void ProducerLoss::detach() {
    if (detached_) return;
    if (session_.settled())
        spdlog::info("the producer has ended: waiting for another one, or for a request to end");
    else
        spdlog::warn("the producer is dead: finishing the slabs at hand, and waiting for another one");
    session_.lose_producer();
    detached_ = true;
    next_producer_.search->forget();
    failpoint("consumer.producer_lost");
}

std::optional<ProducerSearch::Found> ProducerLoss::look_for_next() {
    if (!detached_) return std::nullopt;
    const TimePoint now = clock_.now();
    if (now - searched_at_ < kSearchEvery) return std::nullopt;
    searched_at_ = now;
    const auto found = next_producer_.search->look();
    if (!found) return std::nullopt;
    spdlog::info("another producer has taken over");
    died_at_.reset();
    detached_ = false;
    session_.meet(*found->port);
    failpoint("consumer.producer_met");
    return found;
}

}  // namespace offramp
