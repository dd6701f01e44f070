#include "consumer/processors/results/postgres_output.hpp"

#include <chrono>
#include <string_view>
#include <utility>

#include "common/base/error.hpp"
#include "common/base/log.hpp"
#include "common/settings/catalogue_values.hpp"
#include "common/settings/sections/result_settings.hpp"
#include "consumer/processors/processor.hpp"
#include "consumer/sinks/postgres/postgres_replacement.hpp"

namespace offramp {
namespace {

// Every program reads them from here: common/settings/catalogue.md.
[[maybe_unused]] constexpr std::string_view kPostgresSettings = R"settings(
[[setting]]
flag = "sink-patience-seconds"
kind = "whole"
least = 1
most = 86400
preset = 300
changes = "conduct"
help = "Database of --sink: a consumer waits so long for an answer, then gives its slab back and comes again (exit code 75)"
)settings";

std::chrono::seconds patience_in(const CatalogueValues& settings) {
    return std::chrono::seconds(settings.number("sink-patience-seconds"));
}

// In the database of --sink, which may be none.
PostgresTarget postgres_target_of(const ResultSettings& own, std::chrono::seconds patience, std::string_view contents,
                                  std::string_view next_place) {
    PostgresTarget target{.sink = own.sink, .table = own.postgres_table_of(contents), .patience = patience};
    // In the same schema; found again by the folder's name, and short enough for PostgreSQL whatever the table is
    // called.
    if (!next_place.empty())
        target.next_table = target.table.substr(0, target.table.find('.') + 1) + std::string(contents) +
                            "__offramp_next_" + std::string(next_place);
    return target;
}

class PostgresRows final : public RunOutput {
  public:
    PostgresRows(const PostgresLayout& layout, std::chrono::seconds patience, CompleteTable complete)
        : layout_(layout), patience_(patience), complete_(std::move(complete)) {}

    PreviousOutput look(const ResultSettings& own) const override {
        const PostgresTarget target = target_of(own, {});
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
    void finish(const ResultSettings& own, const std::string& folder, const std::string& next_place) const override {
        if (folder.empty()) return;
        require_sink(own, folder);
        finish_postgres_table(layout_, folder, target_of(own, next_place),
                              [&](PostgresDatabase& database, const std::string& table) {
                                  if (complete_) complete_(database, table);
                              });
    }
    void note_end(const ResultSettings& own, const std::string& folder, const std::string& next_place) const override {
        mark_postgres_table_ended(layout_, folder, target_of(own, next_place));
    }
    void put_in_place(const ResultSettings& own, const std::string& next,
                      const std::string& next_place) const override {
        require_sink(own, next);
        put_postgres_table_in_place(layout_, next, own.output, target_of(own, next_place));
    }
    void remove_next(const ResultSettings& own, const std::string& next, const std::string& next_place) const override {
        if (own.has_postgres_sink()) remove_next_postgres_table(layout_, next, target_of(own, next_place));
    }

  private:
    PostgresTarget target_of(const ResultSettings& own, std::string_view next_place) const {
        return postgres_target_of(own, patience_, layout_.contents, next_place);
    }
    void require_sink(const ResultSettings& own, const std::string& next) const {
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
    std::chrono::seconds patience_;
    CompleteTable complete_;
};

}  // namespace

std::unique_ptr<RunOutput> postgres_rows(const PostgresLayout& layout, const CatalogueValues& settings,
                                         CompleteTable complete) {
    return std::make_unique<PostgresRows>(layout, patience_in(settings), std::move(complete));
}

PostgresTarget postgres_target(const ProcessorOptions& options, std::string_view contents) {
    if (!options.config->has_postgres_sink())
        throw ConfigError("processor " + std::string(contents) + "-postgres needs --sink",
                          "Give the database: postgres://USER@HOST/DATABASE");
    return postgres_target_of(*options.config, patience_in(options.config->catalogue), contents, options.next_place);
}

}  // namespace offramp
