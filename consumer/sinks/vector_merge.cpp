#include "consumer/sinks/vector_merge.hpp"

#include <utility>

#include "common/base/error.hpp"
#include "consumer/sinks/atomic_file.hpp"
#include "consumer/sinks/parquet_library.hpp"
#include "consumer/sinks/vector_rows.hpp"

namespace offramp {
namespace {

SegmentRecord first_of(std::string_view rows) {
    VectorRow row;
    const std::size_t bytes = first_row(rows, row);
    return {.item = row.item, .bytes = bytes, .damage = bytes == 0 ? "a row is not whole" : nullptr};
}

std::string rows_of(const std::string& path) {
    std::string rows;
    parquet_library().read_rows(path, [&](const VectorRow& row) { append_row(rows, row); });
    return rows;
}

VectorKind kind_of_all(std::string_view rows, const std::string& path) {
    VectorRow first;
    VectorRow row;
    for (std::string_view rest = rows; !rest.empty();) {
        rest.remove_prefix(first_row(rest, row));
        if (first.key.data() == nullptr) first = row;
        if (row.kind == first.kind) continue;
        throw ConfigError("vectors for " + path + " are of two kinds: output '" + std::string(first.output) + "' has " + first.kind.describe() + ", output '" +
                              std::string(row.output) + "' " + row.kind.describe(),
                          "Start over without --resume, or give another --output");
    }
    return first.kind;
}

void write_file(const std::string& path, std::string_view rows, Durability durability) {
    AtomicFile file(path, durability);
    parquet_library().write_rows(kind_of_all(rows, path), rows, [&](std::span<const std::byte> bytes) { file.write(bytes); });
    file.commit();
}

}  // namespace

MergeOutcome merge_vectors(const std::string& folder, std::string_view name, const std::string& output_file, FormerOutput former, Durability durability) {
    return merge_segments(folder, name, output_file, former, durability, {.first = &first_of, .read_former = &rows_of, .write = &write_file});
}

}  // namespace offramp
