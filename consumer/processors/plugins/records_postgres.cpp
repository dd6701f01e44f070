#include <span>
#include <string>
#include <string_view>

#include "consumer/processors/processor.hpp"
#include "consumer/processors/records/record_rows.hpp"
#include "consumer/processors/results/postgres_output.hpp"
#include "consumer/sinks/postgres/copy_rows.hpp"
#include "consumer/sinks/postgres/postgres_table.hpp"

namespace offramp {
namespace {

constexpr const char* kProcessor = "records-postgres";

constexpr const char* kColumns = "item, key, status, files, classes, columns, model";
constexpr const char* kColumnsWithId = "item, key, status, files, classes, columns, model, id";

constexpr PostgresLayout kLayout{.contents = "records",
                                 .version = "1",
                                 .columns = kColumns,
                                 .needs_pgvector = false,
                                 .second = {},
                                 .indexed = "key"};

// An empty row may also stand for an item that an earlier run completed: that item's row stays.
constexpr const char* kUpsertRow =
    " ON CONFLICT (item) DO UPDATE SET key = excluded.key, status = excluded.status, files = excluded.files, classes = "
    "excluded.classes, "
    "columns = excluded.columns, model = excluded.model";
constexpr const char* kIfDone = " WHERE excluded.status = 'done'";

// Puts a row for each item into a PostgreSQL table, one transaction per slab. Uses binary COPY into a temporary table,
// and from there replaces existing rows.
class RecordsPostgres final : public Processor {
  public:
    RecordsPostgres(const std::string& folder, const ProcessorOptions& options)
        : rows_(options, kProcessor),
          table_(kLayout, folder, postgres_target(options, kProcessor, kLayout), options.durability()) {}

    void process(const SlabContents& slab, const Progress& progress, const StillCurrent& still_current) override {
        copied_.clear();
        for (const RecordRow& row : rows_.of(slab, progress)) copy(row, slab.model);
        if (copied_.empty() || !still_current()) return;
        const bool ids = rows_.have_ids();
        const std::string columns = ids ? kColumnsWithId : kColumns;
        table_.transact(
            {.rows = std::string("item bigint PRIMARY KEY, key text NOT NULL, status text NOT NULL, files jsonb NOT "
                                 "NULL, classes jsonb, columns jsonb NOT NULL, model text NOT NULL") +
                     (ids ? ", id text" : ""),
             .copied = std::string("item bigint, key text, status text, files jsonb, classes jsonb, columns jsonb, "
                                   "model text") +
                       (ids ? ", id text" : ""),
             .further = ids ? "id" : ""},
            progress, [&](PostgresDatabase& database) {
                if (!has_columns_ && ids) table_.require_columns({"id"});
                has_columns_ = true;
                database.copy("COPY offramp_rows FROM STDIN (FORMAT binary)", copied_.finished());
                // All consumers use the same order, so that no two wait for each other.
                database.run("INSERT INTO " + table_.rows() + " (" + columns + ") SELECT " + columns +
                             " FROM offramp_rows ORDER BY item" + kUpsertRow + (ids ? ", id = excluded.id" : "") +
                             kIfDone);
            });
    }

  private:
    void copy(const RecordRow& row, const std::string& model) {
        copied_.begin_row(rows_.have_ids() ? 8 : 7);
        copied_.number(static_cast<std::int64_t>(row.sample->item));
        copied_.text(postgres_text(row.sample->key));
        copied_.text(row.sample->empty ? "skipped" : "done");
        copied_.json(postgres_json(row.files));
        if (row.classes)
            copied_.json(postgres_json(*row.classes));
        else
            copied_.null();
        copied_.json(postgres_json(row.columns));
        copied_.text(postgres_text(model));
        if (!rows_.have_ids()) return;
        if (row.id)
            copied_.text(postgres_text(*row.id));
        else
            copied_.null();
    }

    RecordRows rows_;
    PostgresTable table_;
    CopyRows copied_;
    bool has_columns_ = false;  // the table has been checked
};

}  // namespace

std::unique_ptr<Processor> make_records_postgres(const ProcessorOptions& options) {
    return std::make_unique<RecordsPostgres>(options.shared_output_for(kProcessor), options);
}

std::unique_ptr<RunOutput> run_output_of_records_postgres(const CatalogueValues& settings) {
    return postgres_rows(kProcessor, kLayout, settings);
}

}  // namespace offramp
