#include "consumer/sinks/parquet/vector_rows.hpp"

#include <bit>
#include <cstring>
#include <limits>

#include "common/base/error.hpp"

namespace offramp {
namespace {

static_assert(std::endian::native == std::endian::little);

struct RowHead {
    std::uint32_t bytes = 0;  // of the whole row
    std::uint32_t dimensions = 0;
    std::uint64_t item = 0;
    std::uint32_t flags = 0;
    std::uint32_t key_bytes = 0, output_bytes = 0, model_bytes = 0;
};
static_assert(sizeof(RowHead) == 32);

// Follows in a row with columns.
struct ColumnsHead {
    std::uint32_t id_bytes = 0, columns_bytes = 0;
};
static_assert(sizeof(ColumnsHead) == 8);

// Follows both in a row of a chunk.
struct ChunkHead {
    std::uint64_t chunk = 0, start_char = 0, end_char = 0;
};
static_assert(sizeof(ChunkHead) == 24);

constexpr std::uint32_t kHalves = 1;
constexpr std::uint32_t kNormalized = 2;
constexpr std::uint32_t kColumns = 4;
constexpr std::uint32_t kChunks = 8;

}  // namespace

std::string VectorKind::describe() const {
    return std::to_string(dimensions) + (halves ? " float16" : " float32") + " numbers" +
           (normalized ? ", normalized" : "") + (model.empty() ? "" : ", of '" + std::string(model) + "'") +
           (columns ? ", with ids and columns" : "") + (chunks ? ", of chunks" : "");
}

void append_row(std::string& rows, const VectorRow& row) {
    expect(row.vector.size() == row.kind.vector_bytes(), "a vector has the bytes of its kind");
    expect(row.kind.columns || (row.id.empty() && row.columns.empty()), "only a row with columns has some");
    const std::size_t bytes = sizeof(RowHead) + (row.kind.columns ? sizeof(ColumnsHead) : 0) +
                              (row.kind.chunks ? sizeof(ChunkHead) : 0) + row.key.size() + row.output.size() +
                              row.kind.model.size() + row.id.size() + row.columns.size() + row.vector.size();
    expect(bytes <= std::numeric_limits<std::uint32_t>::max(), "a row is below 4 GiB");
    const RowHead head{.bytes = static_cast<std::uint32_t>(bytes),
                       .dimensions = row.kind.dimensions,
                       .item = row.item,
                       .flags = (row.kind.halves ? kHalves : 0) | (row.kind.normalized ? kNormalized : 0) |
                                (row.kind.columns ? kColumns : 0) | (row.kind.chunks ? kChunks : 0),
                       .key_bytes = static_cast<std::uint32_t>(row.key.size()),
                       .output_bytes = static_cast<std::uint32_t>(row.output.size()),
                       .model_bytes = static_cast<std::uint32_t>(row.kind.model.size())};
    rows.append(reinterpret_cast<const char*>(&head), sizeof head);
    if (row.kind.columns) {
        const ColumnsHead columns{.id_bytes = static_cast<std::uint32_t>(row.id.size()),
                                  .columns_bytes = static_cast<std::uint32_t>(row.columns.size())};
        rows.append(reinterpret_cast<const char*>(&columns), sizeof columns);
    }
    if (row.kind.chunks) {
        const ChunkHead chunk{.chunk = row.chunk, .start_char = row.start_char, .end_char = row.end_char};
        rows.append(reinterpret_cast<const char*>(&chunk), sizeof chunk);
    }
    rows.append(row.key).append(row.output).append(row.kind.model).append(row.id).append(row.columns);
    rows.append(reinterpret_cast<const char*>(row.vector.data()), row.vector.size());
}

std::size_t first_row(std::string_view rows, VectorRow& row) {
    RowHead head;
    if (rows.size() < sizeof head) return 0;
    std::memcpy(&head, rows.data(), sizeof head);
    const VectorKind kind{.dimensions = head.dimensions,
                          .halves = (head.flags & kHalves) != 0,
                          .normalized = (head.flags & kNormalized) != 0,
                          .columns = (head.flags & kColumns) != 0,
                          .chunks = (head.flags & kChunks) != 0};
    ColumnsHead columns;
    std::size_t heads = sizeof head;
    if (kind.columns) {
        if (rows.size() < heads + sizeof columns) return 0;
        std::memcpy(&columns, rows.data() + heads, sizeof columns);
        heads += sizeof columns;
    }
    ChunkHead chunk;
    if (kind.chunks) {
        if (rows.size() < heads + sizeof chunk) return 0;
        std::memcpy(&chunk, rows.data() + heads, sizeof chunk);
        heads += sizeof chunk;
    }
    const std::uint64_t bytes = heads + std::uint64_t{head.key_bytes} + head.output_bytes + head.model_bytes +
                                columns.id_bytes + columns.columns_bytes + kind.vector_bytes();
    if (head.bytes != bytes || bytes > rows.size()) return 0;
    std::string_view rest = rows.substr(heads);
    const auto take = [&rest](std::size_t size) {
        const std::string_view taken = rest.substr(0, size);
        rest.remove_prefix(size);
        return taken;
    };
    row.item = head.item;
    row.chunk = chunk.chunk;
    row.start_char = chunk.start_char;
    row.end_char = chunk.end_char;
    row.kind = kind;
    row.key = take(head.key_bytes);
    row.output = take(head.output_bytes);
    row.kind.model = take(head.model_bytes);
    row.id = take(columns.id_bytes);
    row.columns = take(columns.columns_bytes);
    row.vector = std::as_bytes(std::span(take(kind.vector_bytes())));
    return bytes;
}

}  // namespace offramp
