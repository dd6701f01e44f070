#include "producer/run/run_manifest.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <optional>
#include <utility>
#include <vector>

#include "common/base/error.hpp"
#include "common/base/failpoint.hpp"
#include "common/base/log.hpp"
#include "common/base/next_place.hpp"
#include "producer/report/manifest_file.hpp"
#include "producer/report/manifest_identity.hpp"
#include "producer/sources/source_fingerprint.hpp"
#include "producer/sources/source_order.hpp"

namespace offramp {
namespace {

const std::string& made_folder(const std::string& folder) {
    std::error_code problem;
    std::filesystem::create_directories(folder, problem);
    if (problem)
        throw SystemError("making the output folder " + folder, problem.value(), "Give --output a folder that this user may write to",
                          ExitCode::CannotWrite);
    return folder;
}

// All that were there are the first ones of the source.
bool grew(const Manifest& former, const BatchSource& source) {
    if (source.items() <= former.items() || (source.max_key_bytes() == 0 && !source.grows_at_its_end())) return false;
    const auto names = former.identity.facts.find(ManifestIdentity::kNamesOfItems);
    return names != former.identity.facts.end() && names->second == source_fingerprint(source, former.items());
}

// Why other names are refused, where that can be told.
std::string what_is_missing(const Manifest& former, const BatchSource& source) {
    if (former.names.empty()) return {};
    std::vector<std::uint64_t> now = hashes_of_items(source);
    std::sort(now.begin(), now.end());
    const auto missing = std::count_if(former.names.begin(), former.names.end(),
                                       [&](std::uint64_t name) { return !std::binary_search(now.begin(), now.end(), name); });
    if (missing == 0) return {};
    return fmt::format(". Of its {} items {} {} gone, or called otherwise (an item whose name another one shares now has its extension in its key)",
                       former.names.size(), missing, missing == 1 ? "is" : "are");
}

// Says what there is to continue. Errors: ConfigError when the folder's manifest is of other work.
void check_same_work(const std::optional<Manifest>& former, ManifestIdentity identity, const BatchSource& source, const std::string& folder,
                     const std::string& flag) {
    if (!former) {
        spdlog::warn("{}: {} has no manifest of earlier work", flag, folder);
        return;
    }
    if (grew(*former, source)) {
        spdlog::info("{}: {} items joined the {} that were there", flag, source.items() - former->items(), former->items());
        for (const char* fact : {ManifestIdentity::kItems, ManifestIdentity::kNamesOfItems}) identity.facts[fact] = former->identity.facts.at(fact);
    }
    if (const std::string difference = identity.difference_from(former->identity); !difference.empty())
        throw ConfigError(flag + ": " + folder + " holds other work, of run " + former->run_id + ": " + difference + what_is_missing(*former, source),
                          "Repeat that run's input and settings, give another --output, or --start-over instead of " + flag);
    if (former->ignored_lines > 0)
        spdlog::warn("{}: {} lines of {}/{} were torn: what they stood for is made again", flag, former->ignored_lines, folder,
                     kManifestName);
    spdlog::info("{}: {} of {} items are done, the last of them by run {}", flag, former->done.items(), former->items(),
                 former->run_id);
}

}  // namespace

RunManifest::RunManifest(const RunConfig& config, const BatchSource& source, Former former,
                         std::function<void(std::exception_ptr)> on_failure)
    : lock_(made_folder(config.output), config.run_id) {
    const std::string path = config.output + "/" + kManifestName;
    const ManifestIdentity identity = ManifestIdentity::of(config, source.items(), source_fingerprint(source));
    if (former != Former::StartOver) {
        const std::optional<Manifest> found = read_manifest(path);
        check_same_work(found, identity, source, config.output, former == Former::TakeOver ? "--adopt" : "--resume");
        if (found) {
            done_ = found->done;
            items_before_ = former == Former::TakeOver ? found->before : found->done.items();
        }
    }
    writer_ = std::make_unique<ManifestWriter>(
        path,
        Manifest{.run_id = config.run_id, .pid = static_cast<std::uint64_t>(::getpid()), .before = items_before_, .identity = identity,
                 .names = hashes_of_items(source), .done = done_, .ignored_lines = 0, .next_place = next_place_of(config.output)},
        config.durable ? ManifestWriter::Durability::PowerCut : ManifestWriter::Durability::Process, std::move(on_failure));
}

std::unique_ptr<BatchSource> in_order_of_former_runs(std::unique_ptr<BatchSource> source, const std::string& folder) {
    const std::optional<Manifest> former = read_manifest(folder + "/" + kManifestName);
    return former ? in_former_order(std::move(source), former->names) : std::move(source);
}

// Killed before, nothing of a former run has been replaced, and its manifest says so; after, this run's manifest promises nothing that is not there.
void RunManifest::begin() {
    failpoint("run.first_result");
    writer_->begin();
    failpoint("run.begun");
}

}  // namespace offramp
