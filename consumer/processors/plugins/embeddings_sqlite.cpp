#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/error.hpp"
#include "consumer/processors/processor.hpp"
#include "consumer/processors/vectors/sample_vectors.hpp"
#include "consumer/sinks/sqlite/output_database.hpp"

namespace offramp {
namespace {

std::string schema_of_vectors(const ColumnsBeside& beside) {
    return "CREATE TABLE outputs (output TEXT PRIMARY KEY, dimensions INTEGER NOT NULL, dtype TEXT NOT NULL, "
           "normalized INTEGER NOT NULL, model TEXT NOT NULL) WITHOUT ROWID;"
           "CREATE TABLE embeddings (key TEXT NOT NULL, output TEXT NOT NULL, item INTEGER NOT NULL, vector BLOB, " +
           std::string(beside.columns() ? "id TEXT NOT NULL, columns TEXT NOT NULL, " : "") +
           (beside.chunks() ? "chunk INTEGER NOT NULL, start_char INTEGER NOT NULL, end_char INTEGER NOT NULL, " : "") +
           "PRIMARY KEY (key, " + (beside.chunks() ? "chunk, " : "") + "output));";
}

std::string upsert_of_vectors(const ColumnsBeside& beside) {
    std::string names, places, changes;
    for (const std::string& name : beside.names()) {
        names += ", " + name;
        places += ", ?";
        if (name != "chunk") changes += ", " + name + " = excluded." + name;
    }
    return "INSERT INTO embeddings (key, output, item, vector" + names + ") VALUES (?, ?, ?, ?" + places +
           ") ON CONFLICT (key, " + (beside.chunks() ? "chunk, " : "") +
           "output) DO UPDATE SET item = excluded.item, vector = excluded.vector" + changes;
}

// Puts each sample's vectors into OUTPUT/embeddings.sqlite, one row per sample and output, one transaction per slab.
class EmbeddingsSqlite final : public Processor {
  public:
    EmbeddingsSqlite(const std::string& folder, const ProcessorOptions& options)
        : vectors_(options.settings, "embeddings-sqlite"),
          beside_(options, "embeddings-sqlite"),
          upsert_(upsert_of_vectors(beside_)),
          database_(folder, "embeddings", schema_of_vectors(beside_), options.durability()) {}

    void process(const SlabContents& slab, const Progress& progress, const StillCurrent& still_current) override {
        const std::vector<VectorOutput> outputs = vectors_.outputs(slab);
        make_rows(outputs, slab, progress);
        vectors_.report_unstored();
        if (rows_.empty() || !still_current()) return;
        database_.transact([&](SqliteDatabase& database) {
            if (!has_columns_) require_columns(database, "embeddings", beside_.names());
            has_columns_ = true;
            for (const VectorOutput& output : outputs) note_output(database, output, slab.model);
            put_rows(database);
        });
    }

  private:
    struct Row {
        const SampleView* sample = nullptr;
        const VectorOutput* output = nullptr;
        std::size_t begin = 0;   // of the vector's bytes
        std::size_t bytes = 0;   // 0: NULL
        std::size_t origin = 0;  // index into origins_
    };

    // Prepares everything that can be made before the database is locked.
    void make_rows(const std::vector<VectorOutput>& outputs, const SlabContents& slab, const Progress& progress) {
        rows_.clear();
        stored_.clear();
        origins_.clear();
        for (const SampleView& sample : slab.samples) {
            progress();
            if (sample.empty) continue;
            origins_.push_back(beside_.of(sample.key));
            for (const VectorOutput& output : outputs) {
                auto vector = vectors_.of(output, sample);
                if (!vectors_.is_finite()) vector = {};
                rows_.push_back({.sample = &sample,
                                 .output = &output,
                                 .begin = stored_.size(),
                                 .bytes = vector.size(),
                                 .origin = origins_.size() - 1});
                stored_.insert(stored_.end(), vector.begin(), vector.end());
            }
        }
    }

    // Vectors of two kinds never share a name.
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
                              "', but this run makes " + made,
                          "Give another --output, or the settings that the database was made with (--truncate-dim, "
                          "--vector-dtype, --normalize, --model)");
    }

    static std::string described(std::int64_t dimensions, std::string_view dtype, bool normalized) {
        return std::to_string(dimensions) + " " + std::string(dtype) + " numbers" + (normalized ? ", normalized," : "");
    }

    void put_rows(SqliteDatabase& database) {
        SqliteStatement& upsert = database.prepared(upsert_);
        for (const Row& row : rows_) {
            const VectorOrigin& origin = origins_[row.origin];
            upsert.bind(1, origin.key).bind(2, row.output->name()).bind(3, static_cast<std::int64_t>(row.sample->item));
            if (row.bytes == 0)
                upsert.bind_nothing(4);
            else
                upsert.bind_bytes(4, std::span(stored_).subspan(row.begin, row.bytes));
            if (beside_.columns()) upsert.bind(5, origin.beside.id).bind(6, origin.beside.columns);
            if (beside_.chunks()) {
                const int first = beside_.columns() ? 7 : 5;
                upsert.bind(first, std::int64_t{origin.chunk.number})
                    .bind(first + 1, static_cast<std::int64_t>(origin.chunk.begin))
                    .bind(first + 2, static_cast<std::int64_t>(origin.chunk.end));
            }
            upsert.run();
        }
    }

    SampleVectors vectors_;
    ColumnsBeside beside_;
    std::string upsert_;
    OutputDatabase database_;
    std::vector<Row> rows_;
    std::vector<std::byte> stored_;
    std::vector<VectorOrigin> origins_;  // of the slab's samples
    bool has_columns_ = false;           // the table has been checked
};

}  // namespace

std::unique_ptr<Processor> make_embeddings_sqlite(const ProcessorOptions& options) {
    return std::make_unique<EmbeddingsSqlite>(options.shared_output_for("embeddings-sqlite"), options);
}

std::unique_ptr<RunOutput> run_output_of_embeddings_sqlite(const CatalogueValues& /*settings*/) {
    return shared_database("embeddings");
}

}  // namespace offramp
