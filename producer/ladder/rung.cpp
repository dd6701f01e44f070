#include "producer/ladder/rung.hpp"

#include <array>

#include "common/base/error.hpp"

namespace offramp {
namespace {

using Processing = Rung::Processing;
using Memory = Rung::Memory;
using Copies = Rung::Copies;
using Waiting = Rung::Waiting;

constexpr std::array<Rung, 6> kRungs{{
    {"sequential", Processing::InProducer, Memory::FreshPrivate, Copies::OnComputeStream, Waiting::ByModelThread},
    {"workers", Processing::InConsumers, Memory::FreshSegment, Copies::OnComputeStream, Waiting::ByModelThread},
    {"pool", Processing::InConsumers, Memory::Pool, Copies::OnComputeStream, Waiting::ByModelThread},
    {"async", Processing::InConsumers, Memory::PageLockedPool, Copies::OnComputeStream, Waiting::ByOtherThread},
    {"streams", Processing::InConsumers, Memory::PageLockedPool, Copies::OnOwnStream, Waiting::ByOtherThread},
    {"compute-alone", Processing::None, Memory::None, Copies::None, Waiting::ByOtherThread},
}};

}  // namespace

const Rung& Rung::named(std::string_view name) {
    for (const Rung& rung : kRungs)
        if (rung.name == name) return rung;
    throw ConfigError("--strategy '" + std::string(name) + "' is unknown",
                      "Give sequential, workers, pool, async, streams or compute-alone");
}

}  // namespace offramp
