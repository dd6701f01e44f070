#include "consumer/processors/results/run_output.hpp"

#include <sys/stat.h>

#include <cstdint>
#include <filesystem>
#include <set>
#include <string>
#include <system_error>
#include <utility>

#include "common/base/error.hpp"
#include "common/base/held_folder.hpp"
#include "common/base/log.hpp"
#include "common/base/utf8.hpp"
#include "consumer/processors/segmentation/stitched_masks.hpp"
#include "consumer/processors/segmentation/tile_canvas.hpp"
#include "consumer/sinks/files/atomic_file.hpp"
#include "consumer/sinks/files/output_name.hpp"
#include "consumer/sinks/segments/segment_file.hpp"
#include "consumer/sinks/sqlite/output_database.hpp"
#include "consumer/sinks/sqlite/sqlite_database.hpp"

namespace offramp {
namespace {

namespace fs = std::filesystem;

// True if something exists at the path. A name whose target cannot be inspected counts as foreign.
bool is_there(const std::string& path) {
    std::error_code failure;
    return fs::symlink_status(path, failure).type() != fs::file_type::not_found;
}

Durability durability_of(const ResultSettings& own) { return own.durable ? Durability::PowerCut : Durability::Process; }

class MergedSegments : public RunOutput {
  public:
    MergedSegments(std::string series, std::string file, const SegmentForm& form)
        : series_(std::move(series)), file_(std::move(file)), form_(form) {}

    std::string look(const ResultSettings& own) const override {
        std::string file = own.output + "/" + file_;
        if (is_there(file)) {
            require_offramp_file(file);
            return file;
        }
        return has_segments(own.output, series_) ? file : std::string();
    }

    void finish(const ResultSettings& own) const override {
        if (own.output.empty()) return;
        const std::string file = own.output + "/" + file_;
        // Always durable, even if single results are not: the file replaces earlier results, and segments are removed.
        const MergeOutcome outcome = merge_segments(own.output, series_, file, Durability::PowerCut, form_);
        if (outcome.segments > 0)
            spdlog::info("{}: {} items, {} of them there before; {} segments, {} items delivered again", file,
                         outcome.items, outcome.kept, outcome.segments, outcome.repeats);
        if (outcome.conflicts > 0)
            spdlog::warn(
                "{}: {} items were delivered again with other lines; the latest were kept. Is the output folder that "
                "of an earlier, unfinished run?",
                file, outcome.conflicts);
    }

    void join(const ResultSettings& own, std::span<const ShardPart> parts) const override {
        const std::string file = own.output + "/" + file_;
        if (is_there(file)) require_offramp_file(file);
        join_parts(parts, file_, file, Durability::PowerCut, form_);
    }

  protected:
    virtual bool is_offramp_file(const std::string& file) const = 0;

  private:
    // An empty file has no owner.
    void require_offramp_file(const std::string& file) const {
        std::error_code failure;
        if (!fs::is_regular_file(file, failure) || (fs::file_size(file, failure) > 0 && !is_offramp_file(file)))
            fail_file_exists(file, "results go");
    }

    std::string series_, file_;
    const SegmentForm& form_;
};

class SegmentsOfAForm final : public MergedSegments {
  public:
    SegmentsOfAForm(std::string series, std::string file, const SegmentForm& form, IsOfframpFile check)
        : MergedSegments(std::move(series), std::move(file), form), is_offramp_file_(check) {}

  private:
    bool is_offramp_file(const std::string& file) const override { return is_offramp_file_(file); }

    IsOfframpFile is_offramp_file_;
};

class SegmentsOfLines final : public MergedSegments {
  public:
    SegmentsOfLines(std::string series, std::string file, HasFirstLine has_first_line)
        : MergedSegments(std::move(series), std::move(file), lines_form()), has_first_line_(has_first_line) {}

  private:
    // Reads the first line only as far as needed: it may be long.
    bool is_offramp_file(const std::string& file) const override {
        RecordFile lines(file);
        const std::string_view text = lines.from(0, 1);
        return has_first_line_(text.substr(0, text.find('\n')));
    }

    HasFirstLine has_first_line_;
};

class SharedDatabase final : public RunOutput {
  public:
    explicit SharedDatabase(std::string name) : name_(std::move(name)) {}

    std::string look(const ResultSettings& own) const override {
        require_replaceable(own.output, name_);
        return has_database(own.output, name_) ? own.output + "/" + name_ + ".sqlite" : std::string();
    }
    void finish(const ResultSettings& own) const override {
        if (!own.output.empty()) finish_database(own.output, name_);
    }
    void join(const ResultSettings& own, std::span<const ShardPart> parts) const override {
        join_databases(parts, own.output, name_, durability_of(own));
    }

  private:
    std::string name_;
};

namespace fs = std::filesystem;

constexpr std::size_t kNamesShown = 3;
constexpr std::uint64_t kBytesOfABlock = 512;  // the unit of st_blocks

// Pictures with incomplete canvases.
struct MissingTiles {
    std::set<std::string> names;
    std::size_t nameless = 0;
    std::uint64_t bytes = 0;  // disk space of their canvases
};

void add(MissingTiles& missing, const std::string& path) {
    struct stat facts {};
    if (::stat(path.c_str(), &facts) == 0)
        missing.bytes += static_cast<std::uint64_t>(facts.st_blocks) * kBytesOfABlock;
    if (std::string name = TileCanvas::name_of(path); !name.empty())
        missing.names.insert(std::move(name));  // with several outputs, each has a canvas
    else
        ++missing.nameless;
}

std::size_t pictures_in(const MissingTiles& missing) { return missing.names.size() + missing.nameless; }

std::string number_of(std::size_t pictures) {
    return pictures == 1 ? "1 picture" : fmt::format("{} pictures", pictures);
}

// ": a, b, c, and 2 more"; empty if no name is known.
std::string names_in(const MissingTiles& missing) {
    std::string names;
    std::size_t shown = 0;
    for (auto name = missing.names.begin(); name != missing.names.end() && shown < kNamesShown; ++name, ++shown)
        names += (shown == 0 ? ": " : ", ") + printable(*name);
    if (shown > 0 && pictures_in(missing) > shown) names += fmt::format(", and {} more", pictures_in(missing) - shown);
    return names;
}

// For a finished run. `folder`: contains the canvases.
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

// For a run that was stopped while it worked on them: they are intact.
void report_unfinished(const MissingTiles& missing) {
    const std::size_t pictures = pictures_in(missing);
    if (pictures == 0) return;
    const bool one = pictures == 1;
    spdlog::warn("{} {} not finished{}; --resume continues with {}", number_of(pictures), one ? "is" : "are",
                 names_in(missing), one ? "it" : "them");
}

enum class Whole { Go, Stay };

// Returns the canvases of incomplete masks.
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
    if (whole == Whole::Go) fs::remove(folder, failure);  // succeeds only if it is empty
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

    // Shards write to the job's canvases: tiles missing now will not arrive any more.
    void join(const ResultSettings& own, std::span<const ShardPart> /*parts*/) const override {
        find_missing_tiles(canvas_folder(own.output), Whole::Go);  // the job's merge reports them
    }
};

}  // namespace

std::unique_ptr<RunOutput> merged_segments(std::string series, std::string file, const SegmentForm& form,
                                           IsOfframpFile is_offramp_file) {
    return std::make_unique<SegmentsOfAForm>(std::move(series), std::move(file), form, is_offramp_file);
}

std::unique_ptr<RunOutput> merged_lines(std::string series, std::string file, HasFirstLine has_first_line) {
    return std::make_unique<SegmentsOfLines>(std::move(series), std::move(file), has_first_line);
}

std::unique_ptr<RunOutput> records_of_others() {
    return merged_lines(std::string(kOthersRecords), std::string(kOthersRecordsFile),
                        [](std::string_view line) { return line.starts_with(kJsonLine); });
}

std::unique_ptr<RunOutput> shared_database(std::string name) {
    return std::make_unique<SharedDatabase>(std::move(name));
}

void remove_leftovers(const std::string& folder) {
    const std::size_t removed = remove_stale_temporaries(folder);
    if (removed > 0) spdlog::info("removed {} temporary files of dead consumers from {}", removed, folder);
}

std::unique_ptr<RunOutput> tile_canvases() { return std::make_unique<TileCanvases>(); }

}  // namespace offramp
