#pragma once

#include <compare>
#include <cstdint>
#include <type_traits>

namespace offramp {

// Names one delivery of one filling of one slab: the only reference to a slab that crosses a process boundary.
// `epoch` counts the producers of a run, `generation` the fillings of the slab, `attempt` the deliveries of the
// filling. A ticket is valid while slab, generation and attempt match the ledger; nothing else is ever compared with
// it.
struct SlabTicket {
    std::uint32_t epoch = 0;
    std::uint32_t slab = 0;
    std::uint64_t generation = 0;
    std::uint32_t attempt = 0;
    std::uint32_t reserved = 0;

    auto operator<=>(const SlabTicket&) const = default;
};
static_assert(sizeof(SlabTicket) == 24 && std::has_unique_object_representations_v<SlabTicket>);

}  // namespace offramp
