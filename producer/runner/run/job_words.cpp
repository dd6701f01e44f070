#include "producer/runner/run/job_words.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <filesystem>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

#include "common/app/images/file_list.hpp"
#include "common/app/settings/effects.hpp"
#include "common/app/settings/source_of_input.hpp"
#include "common/base/error.hpp"
#include "common/base/way_to_write.hpp"
#include "common/base/whole_file.hpp"
#include "producer/runner/checkpoint/checkpoint_identity.hpp"
#include "producer/runner/checkpoint/joined_checkpoint.hpp"
#include "producer/runner/sources/named_source.hpp"
#include "producer/runner/sources/npy_file.hpp"
#include "producer/runner/sources/source_fingerprint.hpp"
#include "producer/runner/sources/source_part.hpp"

namespace offramp {
namespace {

// A source counts and names its items whatever the model takes: these values stand in for the model's input.
constexpr std::int64_t kAnySize = 32, kAnyLength = 16;

TensorSpec input_that_fits(const RunConfig& config) {
    if (config.source == "text" || gives_text_tables(config.source))
        return TensorSpec::contiguous(
            "tokens", kInt32,
            std::array{std::int64_t{1}, std::int64_t{2}, std::max(kAnyLength, std::int64_t{config.chunk_tokens})});
    if (config.source == "npy") {
        const NpyFile file(config.input);
        std::vector<std::int64_t> shape{1};
        shape.insert(shape.end(), file.row_shape().begin(), file.row_shape().end());
        return TensorSpec::contiguous("rows", kFloat32, shape);
    }
    if (config.source == "synthetic") return {};
    const std::int64_t side = config.tile > 0 ? std::int64_t{config.tile} : kAnySize;
    return TensorSpec::contiguous("pictures", kFloat32, std::array{std::int64_t{1}, std::int64_t{3}, side, side});
}

std::unique_ptr<BatchSource> source_to_count(const RunConfig& config) {
    std::error_code ignored;
    if (config.source == "npy" && std::filesystem::is_directory(config.input, ignored))
        throw ConfigError("--input '" + config.input + "' is a folder of arrays, which a job cannot cut into shards",
                          "Start a separate run on each machine with --shard I/N and an --output");
    RunConfig counted = config;
    counted.resize_size = 0;
    return part_of(source_named(config.source)
                       .make({.input = &counted,
                              .model = &counted,
                              .model_input = input_that_fits(config),
                              .model_takes_images = config.source != "npy",
                              .columns_are_read = reads_columns(config)}),
                   config);
}

void write_list(const RunConfig& config, const std::string& path) {
    std::error_code ignored;
    if (config.source != "images" || !std::filesystem::is_directory(config.input, ignored)) return;
    WholeFile file(path, 0644, [&path](int problem) {
        return SystemError("cannot write the list of the input, " + path, problem,
                           way_to_write(problem, "Give --job a folder that this user may write to"),
                           ErrorKind::CannotWrite);
    });
    file.write(text_of_listed_files(list_image_files(config.input)));
    file.flush();
    static_cast<void>(file.put_in_place());
}

std::uint64_t number_of(std::string_view text) {
    std::uint64_t number = 0;
    const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (failure != std::errc() || end != text.data() + text.size())
        throw ConfigError("join-shards: '" + std::string(text) + "' is not a whole number", "The launcher gives it");
    return number;
}

}  // namespace

std::string job_facts(const RunConfig& config, const std::string& list) {
    RunConfig whole = config;
    whole.shard.clear();
    if (!list.empty()) {
        write_list(whole, list);
        if (std::filesystem::exists(list)) whole.input_list = list;
    }
    const auto source = source_to_count(whole);
    CheckpointIdentity identity = CheckpointIdentity::of(whole, source->items(), source_fingerprint(*source));
    return nlohmann::json{{"items", source->items()}, {"identity", identity.facts}}.dump();
}

void join_shards_named(const std::string& output, const std::string& run_id, const std::string& count) {
    std::vector<DoneShard> shards;
    for (std::string line; std::getline(std::cin, line);) {
        const std::string_view index = std::string_view(line).substr(0, line.find(' '));
        shards.push_back({.index = number_of(index), .whole = line.size() > index.size()});
    }
    if (shards.empty())
        throw ConfigError("join-shards: standard input names no shard", "The launcher names those that are done");
    join_checkpoints(output, run_id, shards, number_of(count));
}

}  // namespace offramp
