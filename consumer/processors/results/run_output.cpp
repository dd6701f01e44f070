#include "consumer/processors/results/run_output.hpp"

#include <filesystem>
#include <utility>

#include "common/base/error.hpp"
#include "common/base/log.hpp"
#include "consumer/sinks/files/atomic_file.hpp"
#include "consumer/sinks/segments/record_file.hpp"
#include "consumer/sinks/segments/segment_file.hpp"
#include "consumer/sinks/sqlite/output_database.hpp"
#include "consumer/sinks/sqlite/shard_databases.hpp"

namespace offramp {
namespace {

namespace fs = std::filesystem;

// A name whose target cannot be inspected counts as foreign.
bool is_there(const std::string& path) {
    std::error_code failure;
    return fs::symlink_status(path, failure).type() != fs::file_type::not_found;
}

Durability durability_of(const ResultSettings& own) { return own.durable ? Durability::PowerCut : Durability::Process; }

[[noreturn]] void fail_file_exists(const std::string& file) {
    throw ConfigError(file + " exists and was made by another program, but this run's results go there",
                      "Move it away, or give another --output");
}

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
        // On the disk, whatever is asked of single results: it replaces what earlier runs left, and segments go.
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
            fail_file_exists(file);
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
    // The first line may be long, but not before it is seen what it is.
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

}  // namespace offramp
