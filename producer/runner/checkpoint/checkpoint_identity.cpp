#include "producer/runner/checkpoint/checkpoint_identity.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <memory>
#include <vector>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "common/app/settings/processor_results.hpp"
#include "common/app/settings/run_config.hpp"
#include "common/app/settings/setting.hpp"
#include "common/base/error.hpp"
#include "common/base/log.hpp"
#include "common/base/unique_fd.hpp"
#include "producer/runner/models/model_file.hpp"
#include "producer/runner/models/model_metadata.hpp"

namespace offramp {
namespace {

std::string hash_of_file(const std::string& path) {
    const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!file) throw SystemError("opening " + path, errno, "Give a file that this user may read", ErrorKind::NoInput);
    const std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)> state(XXH3_createState(), &XXH3_freeState);
    XXH3_64bits_reset(state.get());
    std::vector<char> block(std::size_t{1} << 20);
    for (;;) {
        const ssize_t got = ::read(file.get(), block.data(), block.size());
        if (got < 0 && errno == EINTR) continue;
        if (got < 0)
            throw SystemError("reading " + path, errno, "Check the file system that holds it", ErrorKind::NoInput);
        if (got == 0) return fmt::format("{:016x}", XXH3_64bits_digest(state.get()));
        XXH3_64bits_update(state.get(), block.data(), static_cast<std::size_t>(got));
    }
}

std::string shown(const std::string& fact, const std::map<std::string, std::string>& facts) {
    const auto found = facts.find(fact);
    return found == facts.end() || found->second.empty() ? "none" : found->second;
}

}  // namespace

CheckpointIdentity CheckpointIdentity::of(const RunConfig& config, std::uint64_t items, const std::string& source) {
    CheckpointIdentity identity;
    for (const Setting& setting : make_settings())
        if (setting.effect.makes_results(config)) identity.facts["--" + setting.flag] = setting.compared(config);
    // Not the sink: its address may change and may hold a password. Consumers identify their tables by the marks.
    for (const std::string& table : tables_of(config)) {
        std::string& tables = identity.facts["--sink-table"];
        tables += (tables.empty() ? "" : ", ") + table;
    }
    identity.facts[kItems] = std::to_string(items);
    identity.facts[kNamesOfItems] = source;
    if (!config.shard.empty()) identity.facts[kNumbersOfItems] = "of the whole input";
    identity.facts["weights"] = config.weights.empty() ? "" : hash_of_file(config.weights);
    if (is_model_file(config.model)) {
        identity.facts["model file"] = hash_of_file(config.model);
        const std::string metadata = model_metadata_path(config.model);
        identity.facts["model's notes"] = ::access(metadata.c_str(), F_OK) == 0 ? hash_of_file(metadata) : "";
    }
    return identity;
}

std::string CheckpointIdentity::difference_from(const CheckpointIdentity& previous) const {
    std::map<std::string, std::string> all = facts;
    all.insert(previous.facts.begin(), previous.facts.end());
    std::string text;
    for (const auto& [fact, value] : all) {
        const std::string was = shown(fact, previous.facts);
        const std::string is = shown(fact, facts);
        if (was != is) text += (text.empty() ? "" : ", ") + fact + " was " + was + " and is " + is;
    }
    return text;
}

}  // namespace offramp
