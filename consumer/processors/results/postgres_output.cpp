#include "consumer/processors/results/postgres_output.hpp"

#include <chrono>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "common/app/settings/declared_setting.hpp"
#include "common/app/settings/processor_results.hpp"
#include "common/app/settings/sections.hpp"
#include "common/base/error.hpp"
#include "common/base/log.hpp"
#include "consumer/processors/processor.hpp"
#include "consumer/processors/results/shard_results.hpp"
#include "consumer/sinks/postgres/postgres_ownership.hpp"

namespace offramp {
namespace {

std::chrono::seconds patience_in(const CatalogueValues& settings) {
    return std::chrono::seconds(settings.number("sink-patience-seconds"));
}

// The processor's table in the database. The processor defines the layout; the settings define the name.
struct DeclaredTable {
    std::string name;
    PostgresLayout layout;

    DeclaredTable(std::string_view processor, const PostgresLayout& declared) : layout(declared) {
        const ProcessorResults* const known = ProcessorResults::of(processor);
        expect(known != nullptr && !known->table.empty(), "a processor of a database declares its table");
        name = known->table;
    }
};

// In the database of --sink, which may be unset.
PostgresTarget target_in(const ResultSettings& own, std::chrono::seconds patience, const DeclaredTable& table) {
    PostgresTarget target{.sink = own.sink, .table = own.table_for(table.name), .patience = patience};
    if (!own.samples_folder.empty()) target.job = job_of_shard(own.output);
    return target;
}

class PostgresRows final : public RunOutput {
  public:
    PostgresRows(DeclaredTable table, std::chrono::seconds patience, CompleteTable complete)
        : table_(std::move(table)), layout_(table_.layout), patience_(patience), complete_(std::move(complete)) {}

    // A job's shards fill one table. It was checked when the job began, and is complete when all shards are done.
    std::string look(const ResultSettings& own) const override {
        if (is_of_a_shard(own)) return {};
        const PostgresTarget target = target_of(own);
        if (own.resume) require_continued_postgres_table(layout_, own.output, target);
        if (look_at_postgres_table(layout_, own.output, target, own.overwrite)) return postgres_table_name(target);
        const std::string mark = postgres_mark_of(layout_, own.output);
        return has_postgres_mark(layout_, own.output) ? mark : std::string();
    }
    bool set_aside(const ResultSettings& own, const std::string& run_id) const override {
        const std::string aside = set_postgres_table_aside(layout_, target_of(own), run_id);
        if (!aside.empty())
            spdlog::warn("the rows in {} are kept as table '{}'", postgres_table_name(target_of(own)), aside);
        return !aside.empty();
    }
    void finish(const ResultSettings& own) const override {
        if (own.output.empty() || is_of_a_shard(own)) return;
        finish_postgres_table(layout_, own.output, target_of(own),
                              [&](PostgresDatabase& database, const std::string& table) {
                                  if (complete_) complete_(database, table);
                              });
    }
    void note_end(const ResultSettings& own) const override {
        if (!is_of_a_shard(own)) mark_postgres_table_ended(layout_, own.output, target_of(own));
    }
    void put_back(const ResultSettings& own, const std::string& run_id) const override {
        if (own.overwrite && !is_of_a_shard(own)) put_postgres_table_back(layout_, own.output, target_of(own), run_id);
    }

    // The table exists already; each shard has its owner's mark.
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
    PostgresTarget target_of(const ResultSettings& own) const { return target_in(own, patience_, table_); }

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
    return target_in(options.results, patience_in(options.settings), DeclaredTable(processor, layout));
}

}  // namespace offramp
