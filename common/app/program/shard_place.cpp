#include "common/app/program/shard_place.hpp"

#include "common/base/reserved_prefix.hpp"

namespace offramp {

std::string shard_place(const std::string& output, std::uint64_t index) {
    return output + "/" + std::string(kReservedPrefix) + "shards/" + std::to_string(index);
}

std::string to_do_shard_again(const std::string& output, std::uint64_t index) {
    const std::string number = std::to_string(index);
    return "Remove " + shard_place(output, index) + " and, in the job's folder, done/" + number +
           ".json; then run shard " + number + " again";
}

}  // namespace offramp
