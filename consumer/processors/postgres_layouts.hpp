#pragma once

#include "consumer/sinks/postgres_table.hpp"

namespace offramp {

// Of processor embeddings-postgres.
inline constexpr PostgresLayout kEmbeddingsLayout{
    .contents = "embeddings",
    .version = "1",
    .needs_pgvector = true,
    .second = {"_outputs", "output text PRIMARY KEY, dimensions integer NOT NULL, dtype text NOT NULL, normalized boolean NOT NULL, model text NOT NULL"},
    .indexed = ""};

// Of processor records-postgres.
inline constexpr PostgresLayout kRecordsLayout{.contents = "records", .version = "1", .needs_pgvector = false, .second = {}, .indexed = "key"};

}  // namespace offramp
