#include "consumer/processors/results/run_output.hpp"

#include <chrono>
#include <filesystem>
#include <utility>

#include "common/base/error.hpp"
#include "common/base/log.hpp"
#include "consumer/sinks/files/atomic_file.hpp"
#include "consumer/sinks/postgres/postgres_replacement.hpp"
#include "consumer/sinks/segments/record_file.hpp"
#include "consumer/sinks/sqlite/output_database.hpp"

namespace offramp {
namespace {

namespace fs = std::filesystem;

// Where the name leads to nothing that can be looked at, it is somebody's.
bool is_there(const std::string& path) {
    std::error_code failure;
    return fs::symlink_status(path, failure).type() != fs::file_type::not_found;
}

[[noreturn]] void fail_in_the_way(const std::string& file) {
    throw ConfigError(file + " is where this run's results go, and was made by another program",
                      "Move it away, or give another --output");
}

class MergedSegments : public RunOutput {
  public:
    MergedSegments(std::string series, std::string file, MergeSegments merge)
        : series_(std::move(series)), file_(std::move(file)), merge_(merge) {}

    PreviousOutput look(const RunConfig& own) const override {
        const std::string file = own.output + "/" + file_;
        if (is_there(file)) {
            require_ours(file);
            return {PreviousOutput::State::Results, file};
        }
        return {has_segments(own.output, series_) ? PreviousOutput::State::Parts : PreviousOutput::State::None, file};
    }

    void finish(const RunConfig& own, const std::string& folder, const std::string& /*next_place*/) const override {
        if (folder.empty()) return;
        const std::string file = folder + "/" + file_;
        const MergeOutcome outcome =
            merge_(folder, series_, file, own.durable ? Durability::PowerCut : Durability::Process);
        if (outcome.segments > 0)
            spdlog::info("{}: {} items, {} of them there before; {} segments, {} items delivered again", file,
                         outcome.items, outcome.kept, outcome.segments, outcome.repeats);
        if (outcome.conflicts > 0)
            spdlog::warn(
                "{}: {} items were delivered again with other lines; the latest were kept. Is the output folder that "
                "of an earlier, unfinished run?",
                file, outcome.conflicts);
    }

    // A previous run's segments go first: they would be merged into the new file. Killed in between, this is called
    // again.
    void put_in_place(const RunConfig& own, const std::string& next, const std::string& /*next_place*/) const override {
        const std::string whole = next + "/" + file_;
        if (!is_there(whole)) return;
        const std::string file = own.output + "/" + file_;
        if (is_there(file)) require_ours(file);
        remove_segments(own.output, series_);
        replace_file(whole, file);
    }

  protected:
    virtual bool is_ours(const std::string& file) const = 0;

  private:
    // An empty file is nobody's.
    void require_ours(const std::string& file) const {
        std::error_code failure;
        if (!fs::is_regular_file(file, failure) || (fs::file_size(file, failure) > 0 && !is_ours(file)))
            fail_in_the_way(file);
    }

    std::string series_, file_;
    MergeSegments merge_;
};

class SegmentsOfAForm final : public MergedSegments {
  public:
    SegmentsOfAForm(std::string series, std::string file, MergeSegments merge, IsOurs made_by_us)
        : MergedSegments(std::move(series), std::move(file), merge), made_by_us_(made_by_us) {}

  private:
    bool is_ours(const std::string& file) const override { return made_by_us_(file); }

    IsOurs made_by_us_;
};

class SegmentsOfLines final : public MergedSegments {
  public:
    SegmentsOfLines(std::string series, std::string file, MergeSegments merge, BeginsSo begins_so)
        : MergedSegments(std::move(series), std::move(file), merge), begins_so_(begins_so) {}

  private:
    // The first line may be long, but not before it is seen what it is.
    bool is_ours(const std::string& file) const override {
        RecordFile lines(file);
        const std::string_view text = lines.from(0, 1);
        return begins_so_(text.substr(0, text.find('\n')));
    }

    BeginsSo begins_so_;
};

class SharedDatabase final : public RunOutput {
  public:
    explicit SharedDatabase(std::string name) : name_(std::move(name)) {}

    PreviousOutput look(const RunConfig& own) const override {
        require_replaceable(own.output, name_);
        const std::string file = own.output + "/" + name_ + ".sqlite";
        if (is_there(file)) return {PreviousOutput::State::Results, file};
        return {has_database(own.output, name_) ? PreviousOutput::State::Parts : PreviousOutput::State::None, file};
    }
    void finish(const RunConfig& /*own*/, const std::string& folder, const std::string& /*next_place*/) const override {
        if (!folder.empty()) finish_database(folder, name_);
    }
    void put_in_place(const RunConfig& own, const std::string& next, const std::string& /*next_place*/) const override {
        put_database_in_place(next, own.output, name_);
    }

  private:
    std::string name_;
};

class PostgresRows final : public RunOutput {
  public:
    PostgresRows(const PostgresLayout& layout, CompleteTable complete)
        : layout_(layout), complete_(std::move(complete)) {}

    PreviousOutput look(const RunConfig& own) const override {
        const PostgresTarget target = postgres_target_of(own, layout_.contents, {});
        if (own.resume) require_continued_postgres_table(layout_, own.output, target);
        const PostgresTableState state = look_at_postgres_table(layout_, target);
        if (state == PostgresTableState::Absent)
            return {has_postgres_mark(layout_, own.output) ? PreviousOutput::State::Parts : PreviousOutput::State::None,
                    {}};
        const std::string name = postgres_table_name(target);
        if (state == PostgresTableState::Ended && !own.start_over) return {PreviousOutput::State::Ended, name};
        if (const std::string lost = look_at_replaced_table(layout_, target); !lost.empty())
            spdlog::warn(
                "{} will be replaced when this run has come to its end, and the new one will not have {}: make that "
                "again then",
                name, lost);
        return {state == PostgresTableState::Ended ? PreviousOutput::State::Ended : PreviousOutput::State::Parts, name};
    }
    void finish(const RunConfig& own, const std::string& folder, const std::string& next_place) const override {
        if (folder.empty()) return;
        require_sink(own, folder);
        finish_postgres_table(layout_, folder, postgres_target_of(own, layout_.contents, next_place),
                              [&](PostgresDatabase& database, const std::string& table) {
                                  if (complete_) complete_(database, own, table);
                              });
    }
    void note_end(const RunConfig& own, const std::string& folder, const std::string& next_place) const override {
        mark_postgres_table_ended(layout_, folder, postgres_target_of(own, layout_.contents, next_place));
    }
    void put_in_place(const RunConfig& own, const std::string& next, const std::string& next_place) const override {
        require_sink(own, next);
        put_postgres_table_in_place(layout_, next, own.output, postgres_target_of(own, layout_.contents, next_place));
    }
    void remove_next(const RunConfig& own, const std::string& next, const std::string& next_place) const override {
        if (own.has_postgres_sink())
            remove_next_postgres_table(layout_, next, postgres_target_of(own, layout_.contents, next_place));
    }

  private:
    void require_sink(const RunConfig& own, const std::string& next) const {
        if (own.has_postgres_sink()) return;
        const std::string mark = postgres_mark_of(layout_, next);
        const auto made = read_postgres_mark(mark);
        if (!made) return;
        throw ConfigError("a run into " + own.output + " has ended, and its results are not in their place yet, " +
                              named(*made) + ": that needs its --sink",
                          "Repeat that run with --resume and its --sink; or give another --output; or remove " + mark +
                              " to give those results up");
    }

    PostgresLayout layout_;
    CompleteTable complete_;
};

MergeOutcome merge_lines(const std::string& folder, std::string_view name, const std::string& file,
                         Durability durability) {
    return merge_segments(folder, name, file, durability);
}

}  // namespace

std::unique_ptr<RunOutput> merged_segments(std::string series, std::string file, MergeSegments merge, IsOurs is_ours) {
    return std::make_unique<SegmentsOfAForm>(std::move(series), std::move(file), merge, is_ours);
}

std::unique_ptr<RunOutput> merged_lines(std::string series, std::string file, BeginsSo begins_so) {
    return std::make_unique<SegmentsOfLines>(std::move(series), std::move(file), &merge_lines, begins_so);
}

std::unique_ptr<RunOutput> shared_database(std::string name) {
    return std::make_unique<SharedDatabase>(std::move(name));
}

std::unique_ptr<RunOutput> postgres_rows(const PostgresLayout& layout, CompleteTable complete) {
    return std::make_unique<PostgresRows>(layout, std::move(complete));
}

PostgresTarget postgres_target_of(const RunConfig& own, std::string_view contents, std::string_view next_place) {
    PostgresTarget target{.sink = own.sink,
                          .table = own.postgres_table_of(contents),
                          .patience = std::chrono::seconds(own.sink_patience_seconds)};
    // In the same schema; found again by the folder's name, and short enough for PostgreSQL whatever the table is
    // called.
    if (!next_place.empty())
        target.next_table = target.table.substr(0, target.table.find('.') + 1) + std::string(contents) +
                            "__offramp_next_" + std::string(next_place);
    return target;
}

void remove_leftovers(const std::string& folder) {
    const std::size_t removed = remove_stale_temporaries(folder);
    if (removed > 0) spdlog::info("removed {} temporary files of dead consumers from {}", removed, folder);
}

}  // namespace offramp
