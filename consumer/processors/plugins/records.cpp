#include <span>
#include <string>
#include <string_view>

#include "consumer/processors/processor.hpp"
#include "consumer/processors/records/record_rows.hpp"
#include "consumer/sinks/sqlite/output_database.hpp"

namespace offramp {
namespace {

// Every program reads it from here: common/settings/catalogue.md.
[[maybe_unused]] constexpr std::string_view kRecordsResults = R"settings(
[results]
looks-at = "items"
whole = "records.sqlite"
)settings";

constexpr const char* kRecordsSchema =
    "CREATE TABLE records (item INTEGER PRIMARY KEY, key TEXT NOT NULL, status TEXT NOT NULL, files TEXT NOT NULL, "
    "classes TEXT, "
    "columns TEXT NOT NULL, model TEXT NOT NULL);"
    "CREATE INDEX records_by_key ON records (key);";

constexpr const char* kRecordsUpsert =
    "INSERT INTO records (item, key, status, files, classes, columns, model) VALUES (?, ?, 'done', ?, ?, ?, ?) "
    "ON CONFLICT (item) DO UPDATE SET key = excluded.key, status = excluded.status, files = excluded.files, classes = "
    "excluded.classes, "
    "columns = excluded.columns, model = excluded.model";

// An empty row may also stand for an item that an earlier run has done: its row stays.
constexpr const char* kSkip =
    "INSERT INTO records (item, key, status, files, classes, columns, model) VALUES (?, ?, 'skipped', '{}', NULL, ?, "
    "?) "
    "ON CONFLICT (item) DO NOTHING";

// Puts a row for each item into OUTPUT/records.sqlite. One transaction a slab.
class Records final : public Processor {
  public:
    Records(const std::string& folder, const ProcessorOptions& options)
        : rows_(options, "records"), database_(folder, "records", kRecordsSchema, options.durability()) {}

    void process(const SlabContents& slab, const Progress& progress, const StillCurrent& still_current) override {
        const std::span<const RecordRow> rows = rows_.of(slab, progress);
        if (rows.empty() || !still_current()) return;
        database_.transact([&](SqliteDatabase& database) { put(rows, database, slab.model); });
    }

  private:
    static void put(std::span<const RecordRow> rows, SqliteDatabase& database, const std::string& model) {
        SqliteStatement& upsert = database.prepared(kRecordsUpsert);
        SqliteStatement& skip = database.prepared(kSkip);
        for (const RecordRow& row : rows) {
            const auto item = static_cast<std::int64_t>(row.sample->item);
            if (row.sample->hole) {
                skip.bind(1, item).bind(2, row.sample->key).bind(3, row.columns).bind(4, model).run();
                continue;
            }
            upsert.bind(1, item).bind(2, row.sample->key).bind(3, row.files).bind(5, row.columns).bind(6, model);
            if (row.classes)
                upsert.bind(4, *row.classes);
            else
                upsert.bind_nothing(4);
            upsert.run();
        }
    }

    RecordRows rows_;
    OutputDatabase database_;
};

}  // namespace

std::unique_ptr<Processor> make_records(const ProcessorOptions& options) {
    return std::make_unique<Records>(options.shared_output_for("records"), options);
}

std::unique_ptr<RunOutput> run_output_of_records(const CatalogueValues& /*settings*/) {
    return shared_database("records");
}

}  // namespace offramp
