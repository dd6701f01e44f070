#include "producer/report/manifest_identity.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "common/base/error.hpp"
#include "common/base/log.hpp"
#include "common/base/unique_fd.hpp"
#include "common/images/open_pictures.hpp"
#include "producer/models/model_file.hpp"
#include "producer/models/model_notes.hpp"

namespace offramp {
namespace {

std::string hash_of_file(const std::string& path) {
    const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!file) throw SystemError("opening " + path, errno, "Give a file that this user may read", ExitCode::NoInput);
    const std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)> state(XXH3_createState(), &XXH3_freeState);
    XXH3_64bits_reset(state.get());
    std::vector<char> block(std::size_t{1} << 20);
    for (;;) {
        const ssize_t got = ::read(file.get(), block.data(), block.size());
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) throw SystemError("reading " + path, errno, "Check the file system that it lies on", ExitCode::NoInput);
        if (got == 0) return fmt::format("{:016x}", XXH3_64bits_digest(state.get()));
        XXH3_64bits_update(state.get(), block.data(), static_cast<std::size_t>(got));
    }
}

// The settings that say what outputs are. Those of a part that is not chosen do not count.
std::vector<std::string> flags_of(const RunConfig& config) {
    std::vector<std::string> flags{"source",       "model",     "seed",     "precision", "memory-format", "transform",
                                   "output-dtype", "confidence", "processor", "deterministic"};
    if (config.model == "copy")
        flags.insert(flags.end(), {"copy-bytes", "copy-outputs"});
    else
        flags.push_back("image-size");
    if (gives_pictures(config.source)) {
        if (config.resize_size > 0) flags.push_back("resize-size");
        if (config.interpolation == "bicubic") flags.push_back("interpolation");
    }
    if (config.limit > 0) flags.push_back("limit");
    if (!config.shard.empty()) flags.push_back("shard");
    // Elsewhere a batch is but how many items go through the model at once.
    if (config.source == "synthetic" || config.has_processor("checksum")) flags.push_back("batch");
    if (config.source == "synthetic") flags.push_back("synthetic-on");
    if (config.has_processor("http")) flags.insert(flags.end(), {"http-url", "http-body"});
    const auto has_one_of = [&config](std::initializer_list<std::string_view> names) {
        return std::ranges::any_of(names, [&](std::string_view name) { return config.has_processor(name); });
    };
    if (config.transform == "class-map" || has_one_of({"auto", "mask-png", "mask-rle", "cut-out", "overlay", "records", "records-postgres"}))
        flags.insert(flags.end(), {"scores", "threshold"});
    if (has_one_of({"auto", "mask-png", "mask-rle"})) flags.push_back("mask-size");
    if (config.has_processor("image")) flags.insert(flags.end(), {"image-format", "image-quality", "image-range"});
    if (config.has_processor("embeddings-sqlite") || config.has_processor("embeddings-parquet") || config.has_processor("embeddings-postgres"))
        flags.insert(flags.end(), {"normalize", "vector-dtype", "truncate-dim"});
    if (config.has_processor("write")) flags.push_back("write-path");
    return flags;
}

std::string shown(const std::string& fact, const std::map<std::string, std::string>& facts) {
    const auto found = facts.find(fact);
    return found == facts.end() || found->second.empty() ? "none" : found->second;
}

}  // namespace

ManifestIdentity ManifestIdentity::of(const RunConfig& config, std::uint64_t items, const std::string& source) {
    ManifestIdentity identity;
    const nlohmann::json settings = nlohmann::json::parse(to_json(config));
    for (const std::string& flag : flags_of(config)) {
        const nlohmann::json& value = settings.at(flag);
        identity.facts["--" + flag] = value.is_string() ? value.get<std::string>() : value.dump();
    }
    // Not the sink, whose address may change, and which may hold a password: consumers know their tables by the marks.
    for (const std::string& contents : config.postgres_contents()) {
        std::string& tables = identity.facts["--sink-table"];
        tables += (tables.empty() ? "" : ", ") + config.postgres_table_of(contents);
    }
    identity.facts[kItems] = std::to_string(items);
    identity.facts[kNamesOfItems] = source;
    identity.facts["weights"] = config.weights.empty() ? "" : hash_of_file(config.weights);
    if (is_model_file(config.model)) {
        identity.facts["model file"] = hash_of_file(config.model);
        const std::string notes = model_notes_path(config.model);
        identity.facts["model's notes"] = ::access(notes.c_str(), F_OK) == 0 ? hash_of_file(notes) : "";
    }
    return identity;
}

std::string ManifestIdentity::difference_from(const ManifestIdentity& former) const {
    std::map<std::string, std::string> all = facts;
    all.insert(former.facts.begin(), former.facts.end());
    std::string text;
    for (const auto& [fact, value] : all) {
        const std::string was = shown(fact, former.facts);
        const std::string is = shown(fact, facts);
        if (was != is) text += (text.empty() ? "" : ", ") + fact + " was " + was + " and is " + is;
    }
    return text;
}

}  // namespace offramp
