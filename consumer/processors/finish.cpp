#include "consumer/processors/finish.hpp"

#include <filesystem>

#include "common/base/log.hpp"
#include "consumer/processors/postgres_layouts.hpp"
#include "consumer/processors/processor.hpp"
#include "consumer/sinks/atomic_file.hpp"
#include "consumer/sinks/cannot_write.hpp"
#include "consumer/sinks/durability.hpp"
#include "consumer/sinks/hnsw_index.hpp"
#include "consumer/sinks/output_database.hpp"
#include "consumer/sinks/output_name.hpp"
#include "consumer/sinks/postgres_table.hpp"
#include "consumer/sinks/segment_merge.hpp"
#include "consumer/sinks/vector_merge.hpp"

namespace offramp {
namespace {

void remove_leftovers(const std::string& folder) {
    const std::size_t removed = remove_stale_temporaries(folder);
    if (removed > 0) spdlog::info("removed {} temporary files of dead consumers from {}", removed, folder);
}

// What is appended to as segments, and merged at a run's end.
struct Series {
    const char* name;
    const char* file;
    decltype(&merge_vectors) merge;
};

MergeOutcome merge_text(const std::string& folder, std::string_view name, const std::string& file, FormerOutput former, Durability durability) {
    return merge_segments(folder, name, file, former, durability);
}

constexpr Series kSeries[] = {{"checksum", "checksums.tsv", &merge_text},
                              {"mask-rle", "masks.jsonl", &merge_text},
                              {"embeddings-parquet", "embeddings.parquet", &merge_vectors}};

// The databases that processors make, each in its own output folder.
std::vector<std::string> databases_of(const RunConfig& own) {
    if (own.processor == "embeddings-sqlite") return {"embeddings"};
    if (own.processor == "records") return {"records"};
    return {};
}

// What a processor's table in the PostgreSQL of --sink is; nothing for one that has none there.
const PostgresLayout* layout_of(const RunConfig& own) {
    if (own.processor == "embeddings-postgres") return &kEmbeddingsLayout;
    if (own.processor == "records-postgres") return &kRecordsLayout;
    return nullptr;
}

void finish_table(const RunConfig& own, const PostgresLayout& layout) {
    const PostgresTarget target = postgres_target_of(own, layout.contents);
    finish_postgres_table(layout, own.output, target, [&](PostgresDatabase& database) {
        if (&layout == &kEmbeddingsLayout && own.index == "hnsw") make_hnsw_index(database, target.table, layout.second.suffix);
    });
}

void merge_series(const RunConfig& config, const Series& series) {
    const std::string file = config.output + "/" + series.file;
    const MergeOutcome outcome = series.merge(config.output, series.name, file, config.resume ? FormerOutput::KeptIn : FormerOutput::Replaced,
                                              config.durable ? Durability::PowerCut : Durability::Process);
    if (outcome.segments > 0)
        spdlog::info("{}: {} items, {} of them there before; {} segments, {} items delivered again", file, outcome.items,
                     outcome.kept, outcome.segments, outcome.repeats);
    if (outcome.conflicts > 0)
        spdlog::warn(
            "{}: {} items were delivered again with other lines; the latest were kept. "
            "Is the output folder that of an earlier, unfinished run?",
            file, outcome.conflicts);
}

void finish_own(const RunConfig& own) {
    for (const Series& series : kSeries) merge_series(own, series);
    for (const std::string& name : databases_of(own)) finish_database(own.output, name);
    if (const PostgresLayout* layout = layout_of(own)) finish_table(own, *layout);
}

void start_own_over(const RunConfig& own) {
    for (const Series& series : kSeries) remove_series(own.output, series.name, own.output + "/" + series.file);
    for (const std::string& name : databases_of(own)) remove_database(own.output, name);
    if (const PostgresLayout* layout = layout_of(own)) remove_postgres_table(*layout, own.output, postgres_target_of(own, layout->contents));
}

}  // namespace

void finish_run(const RunConfig& config) {
    if (!config.output.empty()) {
        for (const RunConfig& own : configs_of(config)) finish_own(own);
        remove_leftovers(config.output);
    }
    std::error_code unknown;
    if (config.has_processor("write") && std::filesystem::is_directory(config.write_path, unknown))
        remove_leftovers(config.write_path);
}

void start_over(const RunConfig& config) {
    if (config.output.empty()) return;
    for (const RunConfig& own : configs_of(config)) {
        for (const std::string& name : databases_of(own)) require_replaceable(own.output, name);
        if (const PostgresLayout* layout = layout_of(own))
            require_replaceable_postgres_table(*layout, own.output, postgres_target_of(own, layout->contents), own.resume);
    }
    const std::string manifest = config.output + "/" + std::string(kReservedPrefix) + "manifest";
    std::error_code failure;
    std::filesystem::remove(manifest, failure);
    if (failure) throw cannot_write("removing " + manifest, failure.value());
    for (const RunConfig& own : configs_of(config)) start_own_over(own);
}

}  // namespace offramp
