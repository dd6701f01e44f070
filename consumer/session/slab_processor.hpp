#pragma once

#include <functional>
#include <string>

#include "common/base/error.hpp"
#include "common/wire/messages.hpp"
#include "common/wire/slab_view.hpp"

namespace offramp {

// Reports progress to the run; call it at least once per sample. Cheap: one store.
using Progress = std::function<void()>;

// Asks, before a commit, whether the delivery still counts; false spares work that another consumer has taken over: the
// slab is then given back, not completed, whatever was committed. Never needed for correctness. True also when the
// visibility timeout has run out and no other consumer has the slab: then no other would commit.
using StillCurrent = std::function<bool()>;

// Processing a slab failed, in a way that leaves this process as it was: an exception in a user's function.
class SlabFailed : public Error {
  public:
    // A failure is counted once: after as many failures as the run allows, the slab is a dead letter. `why`: for
    // people, may be of several lines; goes into the dead letter.
    explicit SlabFailed(const std::string& why) : SlabFailed(why, ReleaseKind::Failed) {}
    // No consumer can process it: the slab becomes a dead letter immediately.
    static SlabFailed rejected(const std::string& why) { return {why, ReleaseKind::Rejected}; }
    // As the first, and this consumer takes no more.
    static SlabFailed at_the_end(const std::string& why) {
        SlabFailed failed(why);
        failed.ends_consumer_ = true;
        return failed;
    }

    ReleaseKind release() const { return release_; }
    bool ends_consumer() const { return ends_consumer_; }

  private:
    SlabFailed(const std::string& why, ReleaseKind release) : Error(ErrorKind::Internal, why), release_(release) {}

    ReleaseKind release_;
    bool ends_consumer_ = false;
};

// Work of a consumer's loop on each slab. When process() returns, the slab may be reused and its samples count as
// done.
//
// Delivery is at least once: killed at any point and run again, in another process, process() must leave the same.
//
// Borrows the slab, read-only, for the call. Thread: one. Errors: an Error with SinkUnavailable gives the slab back and
// ends this consumer in order; a SlabFailed counts a failure against the slab, which goes to another consumer, and this
// one goes on; any other exception counts a failure, too, and ends this consumer.
class SlabProcessor {
  public:
    virtual ~SlabProcessor() = default;
    virtual void process(const SlabContents& slab, const Progress& progress, const StillCurrent& still_current) = 0;
};

}  // namespace offramp
