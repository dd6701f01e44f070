#include "consumer/processors/run_output.hpp"

#include <chrono>
#include <utility>

#include "common/base/log.hpp"
#include "consumer/sinks/atomic_file.hpp"
#include "consumer/sinks/output_database.hpp"

namespace offramp {
namespace {

class MergedSegments final : public RunOutput {
  public:
    MergedSegments(std::string series, std::string file, MergeSegments merge) : series_(std::move(series)), file_(std::move(file)), merge_(merge) {}

    bool in_any_folder() const override { return true; }
    void remove(const RunConfig& own) const override { remove_series(own.output, series_, own.output + "/" + file_); }

    void finish(const RunConfig& own) const override {
        if (own.output.empty()) return;
        const std::string file = own.output + "/" + file_;
        const MergeOutcome outcome = merge_(own.output, series_, file, own.resume ? FormerOutput::KeptIn : FormerOutput::Replaced,
                                            own.durable ? Durability::PowerCut : Durability::Process);
        if (outcome.segments > 0)
            spdlog::info("{}: {} items, {} of them there before; {} segments, {} items delivered again", file, outcome.items, outcome.kept, outcome.segments,
                         outcome.repeats);
        if (outcome.conflicts > 0)
            spdlog::warn(
                "{}: {} items were delivered again with other lines; the latest were kept. "
                "Is the output folder that of an earlier, unfinished run?",
                file, outcome.conflicts);
    }

  private:
    std::string series_, file_;
    MergeSegments merge_;
};

class SharedDatabase final : public RunOutput {
  public:
    explicit SharedDatabase(std::string name) : name_(std::move(name)) {}

    void require_replaceable(const RunConfig& own) const override { offramp::require_replaceable(own.output, name_); }
    void remove(const RunConfig& own) const override { remove_database(own.output, name_); }
    void finish(const RunConfig& own) const override {
        if (!own.output.empty()) finish_database(own.output, name_);
    }

  private:
    std::string name_;
};

class PostgresRows final : public RunOutput {
  public:
    PostgresRows(const PostgresLayout& layout, CompleteTable complete) : layout_(layout), complete_(std::move(complete)) {}

    void require_replaceable(const RunConfig& own) const override { require_replaceable_postgres_table(layout_, own.output, target_of(own), own.resume); }
    void remove(const RunConfig& own) const override { remove_postgres_table(layout_, own.output, target_of(own)); }
    void finish(const RunConfig& own) const override {
        if (own.output.empty()) return;
        finish_postgres_table(layout_, own.output, target_of(own), [&](PostgresDatabase& database) {
            if (complete_) complete_(database, own);
        });
    }

  private:
    PostgresTarget target_of(const RunConfig& own) const { return postgres_target_of(own, layout_.contents); }

    PostgresLayout layout_;
    CompleteTable complete_;
};

MergeOutcome merge_lines(const std::string& folder, std::string_view name, const std::string& file, FormerOutput former, Durability durability) {
    return merge_segments(folder, name, file, former, durability);
}

}  // namespace

std::unique_ptr<RunOutput> merged_segments(std::string series, std::string file, MergeSegments merge) {
    return std::make_unique<MergedSegments>(std::move(series), std::move(file), merge);
}

std::unique_ptr<RunOutput> merged_lines(std::string series, std::string file) { return merged_segments(std::move(series), std::move(file), &merge_lines); }

std::unique_ptr<RunOutput> shared_database(std::string name) { return std::make_unique<SharedDatabase>(std::move(name)); }

std::unique_ptr<RunOutput> postgres_rows(const PostgresLayout& layout, CompleteTable complete) {
    return std::make_unique<PostgresRows>(layout, std::move(complete));
}

PostgresTarget postgres_target_of(const RunConfig& own, std::string_view contents) {
    return {.sink = own.sink, .table = own.postgres_table_of(contents), .patience = std::chrono::seconds(own.sink_patience_seconds)};
}

void remove_leftovers(const std::string& folder) {
    const std::size_t removed = remove_stale_temporaries(folder);
    if (removed > 0) spdlog::info("removed {} temporary files of dead consumers from {}", removed, folder);
}

}  // namespace offramp
