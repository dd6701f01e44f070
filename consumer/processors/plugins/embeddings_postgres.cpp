#include <algorithm>
#include <cstddef>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "common/base/error.hpp"
#include "common/base/log.hpp"
#include "common/wire/tensor_spec.hpp"
#include "consumer/processors/processor.hpp"
#include "consumer/processors/results/postgres_output.hpp"
#include "consumer/processors/vectors/sample_vectors.hpp"
#include "consumer/sinks/postgres/copy_rows.hpp"
#include "consumer/sinks/postgres/postgres_table.hpp"

namespace offramp {
namespace {

bool makes_index(const CatalogueValues& settings) { return settings.text("index") == "hnsw"; }

constexpr const char* kProcessor = "embeddings-postgres";
// SQLSTATEs of PostgreSQL's appendix A.
constexpr const char* kThereAlready = "23505";  // unique_violation
// invalid_column_reference: ON CONFLICT names columns without a unique index
constexpr const char* kNoSuchKey = "42P10";

// Without the optional columns.
constexpr const char* kVectorColumns = "key, output, item, vector";

constexpr PostgresLayout kLayout{.contents = "embeddings",
                                 .version = "1",
                                 .columns = kVectorColumns,
                                 .needs_pgvector = true,
                                 .second = {"_outputs",
                                            "output text PRIMARY KEY, dimensions integer NOT NULL, dtype text NOT "
                                            "NULL, normalized boolean NOT NULL, model text NOT NULL"},
                                 .indexed = ""};

// pgvector's limit.
constexpr std::uint32_t kMaxDimensions = 16'000;
constexpr std::uint32_t kMaxIndexed = 2'000;
constexpr std::uint32_t kMaxIndexedHalves = 4'000;

// Puts each sample's vectors into a PostgreSQL table with pgvector, one row per sample and output, one transaction per
// slab. Uses binary COPY. If some rows exist already or columns were changed, it copies through a temporary table.
class EmbeddingsPostgres final : public Processor {
  public:
    EmbeddingsPostgres(const std::string& folder, const ProcessorOptions& options)
        : vectors_(options.settings, kProcessor),
          makes_index_(makes_index(options.settings)),
          beside_(options, kProcessor),
          further_(further_columns(beside_)),
          copied_(further_.empty() ? kVectorColumns : kVectorColumns + (", " + further_)),
          key_(beside_.chunks() ? "key, chunk, output" : "key, output"),
          unless_there_(" ON CONFLICT (" + key_ + ") DO NOTHING"),
          table_(kLayout, folder, postgres_target(options, kProcessor, kLayout), options.durability()) {}

    void process(const SlabContents& slab, const Progress& progress, const StillCurrent& still_current) override {
        const std::vector<VectorOutput> outputs = vectors_.outputs(slab);
        for (const VectorOutput& output : outputs) require_to_fit(output);
        make_rows(outputs, slab, progress);
        if (rows_.empty() || !still_current()) return;
        const std::span<const std::byte> rows = rows_.finished();
        table_.transact(columns_of(outputs), progress, [&](PostgresDatabase& database) {
            if (!takes_copies_) {
                table_.require_columns(beside_.names());
                refuse_chunks_of_another_run();
            }
            for (const VectorOutput& output : outputs) note_output(database, output, slab.model);
            if (!takes_copies_) takes_copies_ = takes_copies(database);
            if (!*takes_copies_ || !copied(database, rows)) add_missing(database, rows);
        });
        for (const VectorOutput& output : outputs) noted_.insert(output.name());
    }

  private:
    // A row to write. All consumers write rows in the byte order of their keys, in both ways, so that no two wait for
    // each other.
    struct Row {
        std::string key;
        const SampleView* sample = nullptr;
        const VectorOutput* output = nullptr;
        VectorOrigin origin;
    };

    // Checks that the table still has its key, which prevents duplicate rows after a repeated delivery. Returns true if
    // COPY can write the rows directly: unlike INSERT, COPY does not convert types, so a column type that the owner
    // changed rules it out.
    bool takes_copies(PostgresDatabase& database) const {
        try {
            database.run("INSERT INTO " + table_.rows() + " (" + copied_ + ") SELECT " + copied_ +
                         " FROM offramp_rows WHERE false" + unless_there_);
        } catch (const PostgresError& error) {
            if (error.sqlstate() != kNoSuchKey) throw;
            throw ConfigError(
                table_.name() + " has lost its primary key: rows could be stored twice",
                "ALTER TABLE " + table_.rows() + " ADD PRIMARY KEY (" + key_ + "); or give another --sink-table");
        }
        const auto same = database.rows(
            "SELECT count(*) FROM pg_attribute AS theirs JOIN pg_attribute AS ours USING (attname, atttypid) WHERE "
            "theirs.attnum > 0 "
            "AND theirs.attrelid = $1::regclass AND ours.attrelid = 'pg_temp.offramp_rows'::regclass",
            {table_.rows()});
        return same.at(0).at(0) == std::to_string(4 + beside_.names().size());
    }

    // The table's key then includes the number of the chunk.
    void refuse_chunks_of_another_run() {
        if (beside_.chunks() || !table_.was_made_with("chunk")) return;
        throw ConfigError(table_.name() + " has rows of chunks of texts, but this run's samples are not chunks",
                          "Give the --chunk-tokens that the table was made with, or another --sink-table");
    }

    // Returns false, and changes nothing, if some of the rows exist already. They do not exist on a slab's first
    // delivery, which nearly every delivery is.
    bool copied(PostgresDatabase& database, std::span<const std::byte> rows) const {
        database.run("SAVEPOINT before_copy");
        try {
            database.copy("COPY " + table_.rows() + " (" + copied_ + ") FROM STDIN (FORMAT binary)", rows);
            return true;
        } catch (const PostgresError& error) {
            if (error.sqlstate() != kThereAlready) throw;
            spdlog::debug("some of a slab's rows are in {} already", table_.name());
        }
        database.run("ROLLBACK TO SAVEPOINT before_copy");
        return false;
    }

    void add_missing(PostgresDatabase& database, std::span<const std::byte> rows) const {
        database.copy("COPY offramp_rows FROM STDIN (FORMAT binary)", rows);
        database.run("INSERT INTO " + table_.rows() + " (" + copied_ + ") SELECT " + copied_ +
                     " FROM offramp_rows ORDER BY key COLLATE \"C\", " + (beside_.chunks() ? "chunk, " : "") +
                     "output COLLATE \"C\"" + unless_there_);
    }

    bool halves() const { return vectors_.dtype() == "float16"; }

    void require_to_fit(const VectorOutput& output) const {
        const std::uint32_t most = !makes_index_ ? kMaxDimensions : halves() ? kMaxIndexedHalves : kMaxIndexed;
        if (output.dimensions <= most) return;
        throw ConfigError(describe_output(output.tensor->spec) + " makes vectors of " +
                              std::to_string(output.dimensions) + " " + std::string(vectors_.dtype()) +
                              " numbers; pgvector takes at most " + std::to_string(most) +
                              (makes_index_ ? " with --index hnsw" : ""),
                          "Store fewer of them with --truncate-dim, or leave --index out; --processor "
                          "embeddings-sqlite takes any number");
    }

    // A column of vectors has a fixed length if all vectors have the same.
    PostgresColumns columns_of(const std::vector<VectorOutput>& outputs) const {
        std::string type = halves() ? "halfvec" : "vector";
        const auto like_the_first = [&](const VectorOutput& output) {
            return output.dimensions == outputs.front().dimensions;
        };
        if (std::ranges::all_of(outputs, like_the_first))
            type += "(" + std::to_string(outputs.front().dimensions) + ")";
        return {
            .rows = "key text NOT NULL, output text NOT NULL, item bigint NOT NULL, vector " + type +
                    (beside_.columns() ? ", id text NOT NULL, columns jsonb NOT NULL" : "") +
                    (beside_.chunks() ? ", chunk bigint NOT NULL, start_char bigint NOT NULL, end_char bigint NOT NULL"
                                      : "") +
                    ", PRIMARY KEY (" + key_ + ")",
            .copied = "key text, output text, item bigint, vector " + type +
                      (beside_.columns() ? ", id text, columns jsonb" : "") +
                      (beside_.chunks() ? ", chunk bigint, start_char bigint, end_char bigint" : ""),
            .further = further_};
    }

    // Prepares everything that can be made before the transaction.
    void make_rows(const std::vector<VectorOutput>& outputs, const SlabContents& slab, const Progress& progress) {
        rows_.clear();
        const std::size_t bytes_each = halves() ? 2 : 4;
        for (const Row& row : in_order(outputs, slab, progress)) {
            progress();
            rows_.begin_row(static_cast<std::int16_t>(4 + beside_.names().size()));
            rows_.text(row.key);
            rows_.text(row.output->name());
            rows_.number(static_cast<std::int64_t>(row.sample->item));
            rows_.vector(vectors_.of(*row.output, *row.sample), bytes_each);
            put_beside(row.origin);
        }
        vectors_.report_unstored();
    }

    void put_beside(const VectorOrigin& origin) {
        if (beside_.columns()) {
            rows_.text(postgres_text(origin.beside.id));
            rows_.json(postgres_json(origin.beside.columns));
        }
        if (!beside_.chunks()) return;
        for (const std::uint64_t number : {std::uint64_t{origin.chunk.number}, origin.chunk.begin, origin.chunk.end})
            rows_.number(static_cast<std::int64_t>(number));
    }

    static std::string further_columns(const ColumnsBeside& beside) {
        std::string columns;
        for (const std::string& name : beside.names()) columns += (columns.empty() ? "" : ", ") + name;
        return columns;
    }

    std::vector<Row> in_order(const std::vector<VectorOutput>& outputs, const SlabContents& slab,
                              const Progress& progress) const {
        std::vector<Row> rows;
        rows.reserve(slab.samples.size() * outputs.size());
        for (const SampleView& sample : slab.samples) {
            progress();
            if (sample.empty) continue;
            const VectorOrigin origin = beside_.of(sample.key);
            for (const VectorOutput& output : outputs)
                rows.push_back(
                    {.key = postgres_text(origin.key), .sample = &sample, .output = &output, .origin = origin});
        }
        std::ranges::sort(rows, [](const Row& one, const Row& other) {
            return std::tie(one.key, one.origin.chunk.number, one.output->name()) <
                   std::tie(other.key, other.origin.chunk.number, other.output->name());
        });
        return rows;
    }

    // Vectors of two kinds never share a name. Each consumer checks until it has committed rows of an output.
    void note_output(PostgresDatabase& database, const VectorOutput& output, const std::string& model) {
        if (noted_.contains(output.name())) return;
        const std::string normalized = vectors_.normalizes() ? "t" : "f";
        const std::string dtype(vectors_.dtype());
        database.run("INSERT INTO " + table_.second() +
                         " VALUES ($1, $2::integer, $3, $4::boolean, $5) ON CONFLICT (output) DO NOTHING",
                     {output.name(), std::to_string(output.dimensions), dtype, normalized, model});
        const auto rows = database.rows(
            "SELECT dimensions, dtype, normalized FROM " + table_.second() + " WHERE output = $1", {output.name()});
        const PostgresDatabase::Row& there = rows.at(0);
        const std::string found = described(there.at(0).value_or(""), there.at(1).value_or(""), there.at(2) == "t");
        const std::string made = described(std::to_string(output.dimensions), dtype, vectors_.normalizes());
        if (found == made) return;
        throw ConfigError(table_.name() + " has vectors of " + found + " of output '" + output.name() +
                              "', but this run makes " + made,
                          "Give another --sink-table, or the settings that the table was made with (--truncate-dim, "
                          "--vector-dtype, --normalize, --model)");
    }

    static std::string described(const std::string& dimensions, const std::string& dtype, bool normalized) {
        return dimensions + " " + dtype + " numbers" + (normalized ? ", normalized," : "");
    }

    SampleVectors vectors_;
    bool makes_index_;
    ColumnsBeside beside_;
    std::string further_, copied_;  // columns
    std::string key_, unless_there_;
    PostgresTable table_;
    std::optional<bool> takes_copies_;  // unknown until the first rows
    std::set<std::string> noted_;
    CopyRows rows_;
};

}  // namespace

std::unique_ptr<Processor> make_embeddings_postgres(const ProcessorOptions& options) {
    return std::make_unique<EmbeddingsPostgres>(options.shared_output_for(kProcessor), options);
}

std::unique_ptr<RunOutput> run_output_of_embeddings_postgres(const CatalogueValues& settings) {
    if (!makes_index(settings)) return postgres_rows(kProcessor, kLayout, settings);
    return postgres_rows(kProcessor, kLayout, settings, [](PostgresDatabase& database, const std::string& table) {
        make_hnsw_index(database, table, kLayout.second.suffix);
    });
}

}  // namespace offramp
