#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "common/base/error.hpp"
#include "common/base/log.hpp"
#include "common/base/utf8.hpp"
#include "consumer/processors/processor.hpp"
#include "consumer/processors/sample_vectors.hpp"
#include "consumer/sinks/copy_rows.hpp"
#include "consumer/sinks/postgres_table.hpp"

namespace offramp {
namespace {

// pgvector's.
constexpr std::uint32_t kMaxDimensions = 16'000;
constexpr std::uint32_t kMaxIndexed = 2'000;
constexpr std::uint32_t kMaxIndexedHalves = 4'000;

const std::string& sink_of(const RunConfig& config) {
    if (!config.has_postgres_sink())
        throw ConfigError("processor embeddings-postgres needs --sink", "Give the database: postgres://USER@HOST/DATABASE");
    return config.sink;
}

// A key as PostgreSQL holds text. In one that is no UTF-8, or has a NUL or a "\x" of its own, what cannot be held is \xHH, and so is '\': two keys never
// become one.
std::string as_text(std::string_view key) {
    if (is_utf8(key) && key.find('\0') == std::string_view::npos && key.find("\\x") == std::string_view::npos) return std::string(key);
    std::string text;
    while (!key.empty()) {
        const std::size_t bytes = key.front() == '\0' || key.front() == '\\' ? 0 : utf8_character_bytes(key);
        text += bytes > 0 ? std::string(key.substr(0, bytes)) : fmt::format("\\x{:02x}", static_cast<unsigned char>(key.front()));
        key.remove_prefix(std::max<std::size_t>(bytes, 1));
    }
    return text;
}

// Puts each sample's vectors into a table of a PostgreSQL with pgvector, one row a sample and output, one transaction a slab: binary COPY into a
// temporary table, and from there what is not there yet.
class EmbeddingsPostgres final : public Processor {
  public:
    EmbeddingsPostgres(const std::string& folder, const RunConfig& config, Durability durability)
        : vectors_(config, "embeddings-postgres"),
          makes_index_(config.index != "none"),
          table_(folder, sink_of(config), config.sink_table, durability) {}

    void process(const SlabContents& slab, const Progress& progress, const StillCurrent& still_current) override {
        const std::vector<VectorOutput> outputs = vectors_.outputs(slab);
        for (const VectorOutput& output : outputs) require_to_fit(output);
        make_rows(outputs, slab, progress);
        if (rows_.empty() || !still_current()) return;
        table_.transact(vector_type(outputs), [&](PostgresDatabase& database) {
            for (const VectorOutput& output : outputs) note_output(database, output, slab.model);
            database.copy("COPY offramp_rows FROM STDIN (FORMAT binary)", rows_.finished());
            // In one order for all, so that no two consumers wait for each other.
            database.run("INSERT INTO " + table_.rows() + " (key, output, item, vector) SELECT key, output, item, vector FROM offramp_rows "
                         "ORDER BY key, output ON CONFLICT (key, output) DO NOTHING");
        });
        for (const VectorOutput& output : outputs) noted_.insert(output.name());
    }

  private:
    bool halves() const { return vectors_.dtype() == "float16"; }

    void require_to_fit(const VectorOutput& output) const {
        const std::uint32_t most = !makes_index_ ? kMaxDimensions : halves() ? kMaxIndexedHalves : kMaxIndexed;
        if (output.dimensions <= most) return;
        throw ConfigError("output " + output.tensor->spec.describe() + " makes vectors of " + std::to_string(output.dimensions) + " " +
                              std::string(vectors_.dtype()) + " numbers; pgvector takes at most " + std::to_string(most) + (makes_index_ ? " with --index hnsw" : ""),
                          "Store fewer of them with --truncate-dim, or leave --index out; --processor embeddings-sqlite takes any number");
    }

    // The column's, which has the vectors' length where there is only one.
    std::string vector_type(const std::vector<VectorOutput>& outputs) const {
        const std::string type = halves() ? "halfvec" : "vector";
        const auto like_the_first = [&](const VectorOutput& output) { return output.dimensions == outputs.front().dimensions; };
        return std::ranges::all_of(outputs, like_the_first) ? type + "(" + std::to_string(outputs.front().dimensions) + ")" : type;
    }

    // Everything that can be made before the transaction.
    void make_rows(const std::vector<VectorOutput>& outputs, const SlabContents& slab, const Progress& progress) {
        rows_.clear();
        std::size_t unheld = 0;
        std::string first;
        const std::size_t bytes_each = halves() ? 2 : 4;
        for (const SampleView& sample : slab.samples) {
            progress();
            if (sample.hole) continue;
            for (const VectorOutput& output : outputs) {
                rows_.begin_row(4);
                rows_.text(as_text(sample.key));
                rows_.text(output.name());
                rows_.number(static_cast<std::int64_t>(sample.item));
                if (rows_.vector(vectors_.of(output, sample.row), bytes_each)) continue;
                if (++unheld == 1) first = "the first: sample '" + sample.key + "', output '" + output.name() + "'";
            }
        }
        if (unheld > 0) spdlog::warn("{} vectors have numbers that are infinite or none, which pgvector does not hold: NULL in their rows ({})", unheld, first);
    }

    // Vectors of two kinds are never mixed under one name. Each consumer looks until it has committed rows of an output.
    void note_output(PostgresDatabase& database, const VectorOutput& output, const std::string& model) {
        if (noted_.contains(output.name())) return;
        const std::string normalized = vectors_.normalizes() ? "t" : "f";
        const std::string dtype(vectors_.dtype());
        database.run("INSERT INTO " + table_.outputs() + " VALUES ($1, $2::integer, $3, $4::boolean, $5) ON CONFLICT (output) DO NOTHING",
                     {output.name(), std::to_string(output.dimensions), dtype, normalized, model});
        const auto rows = database.rows("SELECT dimensions, dtype, normalized FROM " + table_.outputs() + " WHERE output = $1", {output.name()});
        const PostgresDatabase::Row& there = rows.at(0);
        const std::string found = described(there.at(0).value_or(""), there.at(1).value_or(""), there.at(2) == "t");
        const std::string made = described(std::to_string(output.dimensions), dtype, vectors_.normalizes());
        if (found == made) return;
        throw ConfigError(table_.name() + " has vectors of " + found + " of output '" + output.name() + "', and this run makes " + made,
                          "Give another --sink-table, or the settings that it was made with (--truncate-dim, --vector-dtype, --normalize, --model)");
    }

    static std::string described(const std::string& dimensions, const std::string& dtype, bool normalized) {
        return dimensions + " " + dtype + " numbers" + (normalized ? ", normalized," : "");
    }

    SampleVectors vectors_;
    bool makes_index_;
    PostgresTable table_;
    std::set<std::string> noted_;
    CopyRows rows_;
};

}  // namespace

std::unique_ptr<Processor> make_embeddings_postgres(const ProcessorOptions& options) {
    return std::make_unique<EmbeddingsPostgres>(options.output_for("embeddings-postgres"), *options.config, options.durability());
}

}  // namespace offramp
