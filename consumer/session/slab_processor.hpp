#pragma once

#include <functional>
#include <string>

#include "common/base/error.hpp"
#include "common/wire/messages.hpp"
#include "common/wire/slab_view.hpp"

namespace offramp {

// Reports progress to the run; call it at least once per sample. Cheap: one store.
using Progress = std::function<void()>;

// Asks, before a commit, whether the delivery still counts. False avoids work that another consumer has taken over: the
// slab is then given back, not completed, even if results were committed. Correctness does not depend on it. Stays true
// after the visibility timeout while no other consumer has the slab, because no other would commit.
using StillCurrent = std::function<bool()>;

// Processing a slab failed without harm to this process: for example, a user's function raised an exception.
class SlabFailed : public Error {
  public:
    // Counts one failure; after the run's limit of failures the slab becomes a dead letter. `why`: for people, may have
    // several lines; is stored in the dead letter.
    explicit SlabFailed(const std::string& why) : SlabFailed(why, ReleaseKind::Failed) {}
    // No consumer can process it: the slab becomes a dead letter immediately.
    static SlabFailed rejected(const std::string& why) { return {why, ReleaseKind::Rejected}; }
    // Counts one failure, and this consumer takes no more slabs.
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

// Processes each slab of a consumer's loop. When process() returns, the slab may be reused and its samples count as
// done.
//
// Delivery is at least once: killed at any point and run again in another process, process() must leave the same
// results.
//
// Borrows the slab, read-only, for the call. Thread: one. Errors: SinkUnavailable gives the slab back and ends this
// consumer in order. SlabFailed counts a failure against the slab, which goes to another consumer; this one continues.
// Any other exception counts a failure and ends this consumer.
class SlabProcessor {
  public:
    virtual ~SlabProcessor() = default;
    virtual void process(const SlabContents& slab, const Progress& progress, const StillCurrent& still_current) = 0;
};

}  // namespace offramp
