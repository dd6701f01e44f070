#include "consumer/processors/results/postgres_output.hpp"

#include <chrono>
#include <filesystem>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "common/app/settings/catalogue_values.hpp"
#include "common/app/settings/processor_results.hpp"
#include "common/app/settings/sections/result_settings.hpp"
#include "common/base/error.hpp"
#include "common/base/log.hpp"
#include "consumer/processors/processor.hpp"
#include "consumer/processors/results/shards.hpp"
#include "consumer/sinks/postgres/postgres_replacement.hpp"

namespace offramp {
namespace {

std::chrono::seconds patience_in(const CatalogueValues& settings) {
    return std::chrono::seconds(settings.number("sink-patience-seconds"));
}

// Which table of the database that is. The layout is its own, and what it is called the settings know.
struct DeclaredTable {
    std::string name;
    PostgresLayout layout;

    DeclaredTable(std::string_view processor, const PostgresLayout& declared) : layout(declared) {
        const ProcessorResults* const known = ProcessorResults::of(processor);
        expect(known != nullptr && !known->table.empty(), "a processor of a database declares its table");
        name = known->table;
    }
};

// In the database of --sink, which may be none.
PostgresTarget target_in(const ResultSettings& own, std::chrono::seconds patience, const DeclaredTable& table,
                         std::string_view next_place) {
    PostgresTarget target{.sink = own.sink, .table = own.table_for(table.name), .patience = patience};
    if (!own.samples_folder.empty()) {
        target.job = job_of_shard(own.output);
        return target;  // a shard leaves nothing beside a table
    }
    // In the same schema; found again by the folder's name, and short enough for PostgreSQL whatever the table is
    // called.
    if (!next_place.empty())
        target.next_table = target.table.substr(0, target.table.find('.') + 1) + std::string(table.layout.contents) +
                            "__offramp_next_" + std::string(next_place);
    return target;
}

class PostgresRows final : public RunOutput {
  public:
    PostgresRows(DeclaredTable table, std::chrono::seconds patience, CompleteTable complete)
        : table_(std::move(table)), layout_(table_.layout), patience_(patience), complete_(std::move(complete)) {}

    // Shards of a job fill one table, which was looked at when the job began and is whole when all of them are done.
    PreviousOutput look(const ResultSettings& own) const override {
        if (is_of_a_shard(own)) return {};
        const PostgresTarget target = target_of(own, {});
        if (own.resume) require_continued_postgres_table(layout_, own.output, target);
        const PostgresTableState state = look_at_postgres_table(layout_, own.output, target, own.overwrite);
        if (state == PostgresTableState::Absent)
            return {has_postgres_mark(layout_, own.output) ? PreviousOutput::State::Parts : PreviousOutput::State::None,
                    {}};
        const std::string name = postgres_table_name(target);
        if (state == PostgresTableState::Ended && !own.overwrite) return {PreviousOutput::State::Ended, name};
        if (const std::string lost = look_at_replaced_table(layout_, target); !lost.empty())
            spdlog::warn(
                "{} will be replaced when this run has finished, and the new table will lack {}: create that again "
                "then",
                name, lost);
        return {state == PostgresTableState::Ended ? PreviousOutput::State::Ended : PreviousOutput::State::Parts, name};
    }
    void finish(const ResultSettings& own, const std::string& folder, const std::string& next_place) const override {
        if (folder.empty() || is_of_a_shard(own)) return;
        require_sink(own, folder);
        finish_postgres_table(layout_, folder, target_of(own, next_place),
                              [&](PostgresDatabase& database, const std::string& table) {
                                  if (complete_) complete_(database, table);
                              });
    }
    void note_end(const ResultSettings& own, const std::string& folder, const std::string& next_place) const override {
        if (is_of_a_shard(own)) return;
        mark_postgres_table_ended(layout_, folder, target_of(own, next_place));
    }
    void put_in_place(const ResultSettings& own, const std::string& next,
                      const std::string& next_place) const override {
        if (is_of_a_shard(own)) return;
        require_sink(own, next);
        put_postgres_table_in_place(layout_, next, own.output, target_of(own, next_place), own.overwrite);
    }
    // A mark that stays is of a table that only another --sink leads to.
    bool remove_next(const ResultSettings& own, const std::string& next, const std::string& next_place) const override {
        if (own.has_database() && !is_of_a_shard(own))
            remove_next_postgres_table(layout_, next, target_of(own, next_place));
        std::error_code unknown;
        return std::filesystem::symlink_status(postgres_mark_of(layout_, next), unknown).type() ==
               std::filesystem::file_type::not_found;
    }

    // The table exists; the mark of its owner is in each shard.
    void join(const ResultSettings& own, std::span<const ShardPart> parts) const override {
        std::optional<PostgresMark> first;
        for (const ShardPart& part : parts) {
            const std::string path = postgres_mark_of(layout_, part.folder);
            const auto mark = read_postgres_mark(path);
            if (!mark) continue;
            if (first && mark->number != first->number)
                throw ConfigError(
                    named(*first) + " was recreated while shards filled it: " + path + " belongs to another table",
                    "Some shards' rows are lost: begin another job");
            if (!first) put_postgres_mark(layout_, path, own.output);
            first = mark;
        }
    }

  private:
    static bool is_of_a_shard(const ResultSettings& own) { return !own.samples_folder.empty(); }
    PostgresTarget target_of(const ResultSettings& own, std::string_view next_place) const {
        return target_in(own, patience_, table_, next_place);
    }
    void require_sink(const ResultSettings& own, const std::string& next) const {
        if (own.has_database()) return;
        const std::string mark = postgres_mark_of(layout_, next);
        const auto made = read_postgres_mark(mark);
        if (!made) return;
        throw ConfigError("a run into " + own.output + " has ended, and its results are not in their place yet, " +
                              named(*made) + ": that needs its --sink",
                          "Repeat that run with --resume and its --sink; or give another --output; or remove " + mark +
                              " to discard those results");
    }

    DeclaredTable table_;
    const PostgresLayout& layout_;
    std::chrono::seconds patience_;
    CompleteTable complete_;
};

}  // namespace

std::unique_ptr<RunOutput> postgres_rows(std::string_view processor, const PostgresLayout& layout,
                                         const CatalogueValues& settings, CompleteTable complete) {
    return std::make_unique<PostgresRows>(DeclaredTable(processor, layout), patience_in(settings), std::move(complete));
}

PostgresTarget postgres_target(const ProcessorOptions& options, std::string_view processor,
                               const PostgresLayout& layout) {
    if (!options.results.has_database())
        throw ConfigError("processor " + std::string(processor) + " needs --sink",
                          "Give the database: postgres://USER@HOST/DATABASE");
    return target_in(options.results, patience_in(options.settings), DeclaredTable(processor, layout),
                     options.next_place);
}

}  // namespace offramp
