#include "producer/run/run_manifest.hpp"

#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <optional>
#include <utility>

#include "common/base/error.hpp"
#include "common/base/log.hpp"
#include "producer/report/manifest_file.hpp"
#include "producer/report/manifest_identity.hpp"
#include "producer/sources/source_fingerprint.hpp"

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

// Says what there is to continue. Errors: ConfigError when the folder's manifest is of other work.
void check_same_work(const std::optional<Manifest>& former, const ManifestIdentity& identity, const std::string& folder,
                     const std::string& flag) {
    if (!former) {
        spdlog::warn("{}: {} has no manifest of earlier work", flag, folder);
        return;
    }
    if (const std::string difference = identity.difference_from(former->identity); !difference.empty())
        throw ConfigError(flag + ": " + folder + " holds other work, of run " + former->run_id + ": " + difference,
                          "Repeat that run's input and settings, give another --output, or leave " + flag + " out to start over");
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
        check_same_work(found, identity, config.output, former == Former::TakeOver ? "--adopt" : "--resume");
        if (found) {
            done_ = found->done;
            items_before_ = former == Former::TakeOver ? found->before : found->done.items();
        }
    }
    writer_ = std::make_unique<ManifestWriter>(
        path,
        Manifest{.run_id = config.run_id, .pid = static_cast<std::uint64_t>(::getpid()), .before = items_before_, .identity = identity,
                 .done = done_, .ignored_lines = 0},
        config.durable ? ManifestWriter::Durability::PowerCut : ManifestWriter::Durability::Process, std::move(on_failure));
}

}  // namespace offramp
