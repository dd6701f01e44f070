#include "common/program/shard_place.hpp"

#include "common/base/reserved_prefix.hpp"

namespace offramp {

std::string shard_place(const std::string& output, std::uint64_t index) {
    return output + "/" + std::string(kReservedPrefix) + "shards/" + std::to_string(index);
}

}  // namespace offramp
