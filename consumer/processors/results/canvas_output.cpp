#include "consumer/processors/results/canvas_output.hpp"

#include <filesystem>
#include <system_error>

#include "common/base/error.hpp"
#include "common/base/log.hpp"
#include "common/base/reserved_prefix.hpp"
#include "consumer/processors/segmentation/stitched_masks.hpp"
#include "consumer/processors/segmentation/tile_canvas.hpp"
#include "consumer/sinks/files/write_error.hpp"

namespace offramp {
namespace {

namespace fs = std::filesystem;

// Those of whole masks. Returns how many are left.
std::size_t remove_whole(const std::string& folder) {
    std::size_t left = 0;
    std::error_code failure;
    for (fs::directory_iterator entry(folder, failure); !failure && entry != fs::directory_iterator();
         entry.increment(failure)) {
        std::error_code problem;
        if (entry->path().filename().string().starts_with(kReservedPrefix)) continue;
        if (TileCanvas::is_committed(entry->path().string()))
            fs::remove(entry->path(), problem);
        else
            ++left;
        if (problem) throw write_error("removing " + entry->path().string(), problem.value());
    }
    if (failure && failure != std::errc::no_such_file_or_directory)
        throw write_error("looking at " + folder, failure.value());
    fs::remove(folder, failure);  // where it is empty
    return left;
}

class TileCanvases final : public RunOutput {
  public:
    PreviousOutput look(const ResultSettings& own) const override {
        std::error_code none;
        const std::string folder = canvas_folder(own.output);
        if (!fs::is_directory(folder, none) || fs::is_empty(folder, none)) return {};
        return {.state = PreviousOutput::State::Parts, .what = folder};
    }

    void finish(const ResultSettings& /*own*/, const std::string& /*folder*/,
                const std::string& /*next_place*/) const override {}

    void note_end(const ResultSettings& /*own*/, const std::string& folder,
                  const std::string& /*next_place*/) const override {
        const std::string canvases = canvas_folder(folder);
        if (const std::size_t left = remove_whole(canvases); left > 0)
            spdlog::warn(
                "{} pictures lack tiles, and have no mask: {} has what is there of them, for --resume, which tries the "
                "others again. Where nobody will, remove that folder",
                left, canvases);
    }

    // The run's own, of which note_end() has left those that lack tiles, instead of a previous run's.
    // That one's go aside first, so that whoever does this again knows which are which.
    void put_in_place(const ResultSettings& own, const std::string& next,
                      const std::string& /*next_place*/) const override {
        std::error_code failure;
        if (!fs::exists(next, failure)) return;
        const std::string from = canvas_folder(next), to = canvas_folder(own.output), former = from + "-former";
        if (!fs::exists(former, failure)) {
            if (fs::exists(to, failure))
                fs::rename(to, former, failure);
            else
                fs::create_directory(former, failure);
        }
        if (!failure && fs::exists(from, failure)) fs::rename(from, to, failure);
        if (failure) throw write_error("moving " + from + " to " + to, failure.value());
    }

    // Shards write to the canvases of the whole: what lacks tiles now gets none.
    void join(const ResultSettings& own, std::span<const ShardPart> /*parts*/) const override {
        note_end(own, own.output, {});
    }
};

}  // namespace

std::unique_ptr<RunOutput> tile_canvases() { return std::make_unique<TileCanvases>(); }

}  // namespace offramp
