#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "consumer/processors/processor.hpp"
#include "consumer/processors/records/record_rows.hpp"
#include "consumer/sinks/sqlite/output_database.hpp"

namespace offramp {
namespace {

std::string records_schema(bool with_ids) {
    return "CREATE TABLE records (item INTEGER PRIMARY KEY, key TEXT NOT NULL, status TEXT NOT NULL, files TEXT NOT "
           "NULL, classes TEXT, columns TEXT NOT NULL, model TEXT NOT NULL" +
           std::string(with_ids ? ", id TEXT" : "") +
           ");"
           "CREATE INDEX records_by_key ON records (key);";
}

// An empty row may also stand for an item that an earlier run completed: that item's row stays.
constexpr const char* kSkip = " ON CONFLICT (item) DO NOTHING";

// Puts a row for each item into OUTPUT/records.sqlite, one transaction per slab.
class Records final : public Processor {
  public:
    Records(const std::string& folder, const ProcessorOptions& options)
        : rows_(options, "records"),
          database_(folder, "records", records_schema(rows_.have_ids()), options.durability()),
          insert_(rows_.have_ids()
                      ? "INSERT INTO records (item, key, status, files, classes, columns, model, id) VALUES (?, ?, ?, "
                        "?, ?, ?, ?, ?)"
                      : "INSERT INTO records (item, key, status, files, classes, columns, model) VALUES (?, ?, ?, ?, "
                        "?, ?, ?)"),
          upsert_(insert_ +
                  " ON CONFLICT (item) DO UPDATE SET key = excluded.key, status = excluded.status, files = "
                  "excluded.files, classes = excluded.classes, columns = excluded.columns, model = excluded.model" +
                  (rows_.have_ids() ? ", id = excluded.id" : "")) {}

    void process(const SlabContents& slab, const Progress& progress, const StillCurrent& still_current) override {
        const std::span<const RecordRow> rows = rows_.of(slab, progress);
        if (rows.empty() || !still_current()) return;
        database_.transact([&](SqliteDatabase& database) { put(rows, database, slab.model); });
    }

  private:
    void put(std::span<const RecordRow> rows, SqliteDatabase& database, const std::string& model) {
        if (!has_columns_ && rows_.have_ids()) require_columns(database, "records", {"id"});
        has_columns_ = true;
        SqliteStatement& upsert = database.prepared(upsert_);
        SqliteStatement& skip = database.prepared(skip_);
        for (const RecordRow& row : rows) {
            SqliteStatement& statement = row.sample->empty ? skip : upsert;
            statement.bind(1, static_cast<std::int64_t>(row.sample->item)).bind(2, row.sample->key);
            statement.bind(3, row.sample->empty ? "skipped" : "done").bind(4, row.files).bind(6, row.columns);
            statement.bind(7, model);
            put_text(statement, 5, row.classes);
            if (rows_.have_ids()) put_text(statement, 8, row.id);
            statement.run();
        }
    }

    static void put_text(SqliteStatement& statement, int at, const std::optional<std::string>& text) {
        if (text)
            statement.bind(at, *text);
        else
            statement.bind_nothing(at);
    }

    RecordRows rows_;
    OutputDatabase database_;
    std::string insert_, upsert_, skip_ = insert_ + kSkip;
    bool has_columns_ = false;  // the table has been checked
};

}  // namespace

std::unique_ptr<Processor> make_records(const ProcessorOptions& options) {
    return std::make_unique<Records>(options.shared_output_for("records"), options);
}

std::unique_ptr<RunOutput> run_output_of_records(const CatalogueValues& /*settings*/) {
    return shared_database("records");
}

}  // namespace offramp
