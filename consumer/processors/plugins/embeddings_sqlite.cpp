#include <string>
#include <string_view>
#include <vector>

#include "common/base/error.hpp"
#include "consumer/processors/processor.hpp"
#include "consumer/processors/vectors/sample_vectors.hpp"
#include "consumer/sinks/sqlite/output_database.hpp"

namespace offramp {
namespace {

// Every program reads it from here: common/settings/catalogue.md.
[[maybe_unused]] constexpr std::string_view kEmbeddingsSqliteResults = R"settings(
[results]
reads = "vectors"
whole = "embeddings.sqlite"
kept-by = "key"
chosen-for = "vectors"
settings = "normalize, vector-dtype, truncate-dim"
)settings";

constexpr const char* kSchema =
    "CREATE TABLE outputs (output TEXT PRIMARY KEY, dimensions INTEGER NOT NULL, dtype TEXT NOT NULL, normalized "
    "INTEGER NOT NULL, "
    "model TEXT NOT NULL) WITHOUT ROWID;"
    "CREATE TABLE embeddings (key TEXT NOT NULL, output TEXT NOT NULL, item INTEGER NOT NULL, vector BLOB NOT NULL, "
    "PRIMARY KEY (key, output));";

constexpr const char* kUpsert =
    "INSERT INTO embeddings (key, output, item, vector) VALUES (?, ?, ?, ?) "
    "ON CONFLICT (key, output) DO UPDATE SET item = excluded.item, vector = excluded.vector";

// Puts each sample's vectors into OUTPUT/embeddings.sqlite, one row a sample and output, one transaction a slab.
class EmbeddingsSqlite final : public Processor {
  public:
    EmbeddingsSqlite(const std::string& folder, const CatalogueValues& settings, Durability durability)
        : vectors_(settings, "embeddings-sqlite"), database_(folder, "embeddings", kSchema, durability) {}

    void process(const SlabContents& slab, const Progress& progress, const StillCurrent& still_current) override {
        const std::vector<VectorOutput> outputs = vectors_.outputs(slab);
        make_rows(outputs, slab, progress);
        if (rows_.empty() || !still_current()) return;
        database_.transact([&](SqliteDatabase& database) {
            for (const VectorOutput& output : outputs) note_output(database, output, slab.model);
            put_rows(database);
        });
    }

  private:
    struct Row {
        const SampleView* sample = nullptr;
        const VectorOutput* output = nullptr;
        std::size_t begin = 0;  // of its vector's bytes
        std::size_t bytes = 0;
    };

    // Everything that can be made before the database is locked.
    void make_rows(const std::vector<VectorOutput>& outputs, const SlabContents& slab, const Progress& progress) {
        rows_.clear();
        stored_.clear();
        for (const SampleView& sample : slab.samples) {
            progress();
            if (sample.hole) continue;
            for (const VectorOutput& output : outputs) {
                const auto vector = vectors_.of(output, sample.row);
                rows_.push_back(
                    {.sample = &sample, .output = &output, .begin = stored_.size(), .bytes = vector.size()});
                stored_.insert(stored_.end(), vector.begin(), vector.end());
            }
        }
    }

    // Vectors of two kinds are never mixed under one name.
    void note_output(SqliteDatabase& database, const VectorOutput& output, const std::string& model) {
        SqliteStatement& there =
            database.prepared("SELECT dimensions, dtype, normalized FROM outputs WHERE output = ?");
        there.bind(1, output.name());
        if (!there.step()) {
            database.prepared("INSERT INTO outputs VALUES (?, ?, ?, ?, ?)")
                .bind(1, output.name())
                .bind(2, output.dimensions)
                .bind(3, vectors_.dtype())
                .bind(4, vectors_.normalizes() ? 1 : 0)
                .bind(5, model)
                .run();
            return;
        }
        const std::string found = described(there.number(0), there.text(1), there.number(2) != 0);
        while (there.step()) {
        }
        const std::string made = described(output.dimensions, vectors_.dtype(), vectors_.normalizes());
        if (found == made) return;
        throw ConfigError("database " + database_.path() + " has vectors of " + found + " of output '" + output.name() +
                              "', and this run makes " + made,
                          "Give another --output, or the settings that it was made with (--truncate-dim, "
                          "--vector-dtype, --normalize, --model)");
    }

    static std::string described(std::int64_t dimensions, std::string_view dtype, bool normalized) {
        return std::to_string(dimensions) + " " + std::string(dtype) + " numbers" + (normalized ? ", normalized," : "");
    }

    void put_rows(SqliteDatabase& database) {
        SqliteStatement& upsert = database.prepared(kUpsert);
        for (const Row& row : rows_)
            upsert.bind(1, row.sample->key)
                .bind(2, row.output->name())
                .bind(3, static_cast<std::int64_t>(row.sample->item))
                .bind_bytes(4, std::span(stored_).subspan(row.begin, row.bytes))
                .run();
    }

    SampleVectors vectors_;
    OutputDatabase database_;
    std::vector<Row> rows_;
    std::vector<std::byte> stored_;
};

}  // namespace

std::unique_ptr<Processor> make_embeddings_sqlite(const ProcessorOptions& options) {
    return std::make_unique<EmbeddingsSqlite>(options.shared_output_for("embeddings-sqlite"), options.settings,
                                              options.durability());
}

std::unique_ptr<RunOutput> run_output_of_embeddings_sqlite(const CatalogueValues& /*settings*/) {
    return shared_database("embeddings");
}

}  // namespace offramp
