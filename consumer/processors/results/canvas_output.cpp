#include "consumer/processors/results/canvas_output.hpp"

#include <sys/stat.h>

#include <cstdint>
#include <filesystem>
#include <set>
#include <string>
#include <system_error>
#include <utility>

#include "common/base/error.hpp"
#include "common/base/log.hpp"
#include "common/base/reserved_prefix.hpp"
#include "common/base/utf8.hpp"
#include "consumer/processors/segmentation/stitched_masks.hpp"
#include "consumer/processors/segmentation/tile_canvas.hpp"
#include "consumer/sinks/files/write_error.hpp"

namespace offramp {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kNamesShown = 3;
constexpr std::uint64_t kBytesOfABlock = 512;  // of st_blocks

// Pictures whose canvases are not of whole masks.
struct MissingTiles {
    std::set<std::string> names;
    std::size_t nameless = 0;
    std::uint64_t bytes = 0;  // that their canvases take of the disk
};

void add(MissingTiles& missing, const std::string& path) {
    struct stat facts {};
    if (::stat(path.c_str(), &facts) == 0)
        missing.bytes += static_cast<std::uint64_t>(facts.st_blocks) * kBytesOfABlock;
    if (std::string name = TileCanvas::name_of(path); !name.empty())
        missing.names.insert(std::move(name));  // of several outputs each has a canvas
    else
        ++missing.nameless;
}

std::size_t pictures_in(const MissingTiles& missing) { return missing.names.size() + missing.nameless; }

std::string number_of(std::size_t pictures) {
    return pictures == 1 ? "1 picture" : fmt::format("{} pictures", pictures);
}

// ": a, b, c, and 2 more"; empty where no name is known.
std::string names_in(const MissingTiles& missing) {
    std::string names;
    std::size_t shown = 0;
    for (auto name = missing.names.begin(); name != missing.names.end() && shown < kNamesShown; ++name, ++shown)
        names += (shown == 0 ? ": " : ", ") + printable(*name);
    if (shown > 0 && pictures_in(missing) > shown) names += fmt::format(", and {} more", pictures_in(missing) - shown);
    return names;
}

// For a finished run. `folder`: of the canvases.
void report_missing_tiles(const MissingTiles& missing, const std::string& folder) {
    const std::size_t pictures = pictures_in(missing);
    if (pictures == 0) return;
    const bool one = pictures == 1;
    spdlog::warn(
        "{} {} tiles and {} no mask{}; {} finished tiles, {} MiB in {}, are kept for --resume, which computes "
        "the missing tiles, and all tiles of a changed picture. If you will not resume the run, remove that folder",
        number_of(pictures), one ? "lacks" : "lack", one ? "has" : "have", names_in(missing), one ? "its" : "their",
        (missing.bytes + (1U << 20U) - 1) >> 20U, folder);
}

// For a run that was stopped while working on them: they are sound.
void report_unfinished(const MissingTiles& missing) {
    const std::size_t pictures = pictures_in(missing);
    if (pictures == 0) return;
    const bool one = pictures == 1;
    spdlog::warn("{} {} not finished{}; --resume continues with {}", number_of(pictures), one ? "is" : "are",
                 names_in(missing), one ? "it" : "them");
}

enum class Whole { Go, Stay };

// Returns those of masks that are not whole.
MissingTiles find_missing_tiles(const std::string& folder, Whole whole) {
    MissingTiles missing;
    std::error_code failure;
    for (fs::directory_iterator entry(folder, failure); !failure && entry != fs::directory_iterator();
         entry.increment(failure)) {
        std::error_code problem;
        if (entry->path().filename().string().starts_with(kReservedPrefix)) continue;
        if (!TileCanvas::is_committed(entry->path().string()))
            add(missing, entry->path().string());
        else if (whole == Whole::Go)
            fs::remove(entry->path(), problem);
        if (problem) throw write_error("removing " + entry->path().string(), problem.value());
    }
    if (failure && failure != std::errc::no_such_file_or_directory)
        throw write_error("looking at " + folder, failure.value());
    if (whole == Whole::Go) fs::remove(folder, failure);  // where it is empty
    return missing;
}

class TileCanvases final : public RunOutput {
  public:
    std::string look(const ResultSettings& own) const override {
        std::error_code none;
        const std::string folder = canvas_folder(own.output);
        return fs::is_directory(folder, none) && !fs::is_empty(folder, none) ? folder : std::string();
    }

    void finish(const ResultSettings& /*own*/) const override {}

    void note_end(const ResultSettings& own) const override {
        report_missing_tiles(find_missing_tiles(canvas_folder(own.output), Whole::Go), canvas_folder(own.output));
    }

    void note_broken_off(const ResultSettings& own) const override {
        report_unfinished(find_missing_tiles(canvas_folder(own.output), Whole::Stay));
    }

    // Shards write to the canvases of the whole: what lacks tiles now gets none.
    void join(const ResultSettings& own, std::span<const ShardPart> /*parts*/) const override {
        find_missing_tiles(canvas_folder(own.output), Whole::Go);  // the job's merge reports them
    }
};

}  // namespace

std::unique_ptr<RunOutput> tile_canvases() { return std::make_unique<TileCanvases>(); }

}  // namespace offramp
