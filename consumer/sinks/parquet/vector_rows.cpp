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

constexpr std::uint32_t kHalves = 1;
constexpr std::uint32_t kNormalized = 2;

}  // namespace

std::string VectorKind::describe() const {
    return std::to_string(dimensions) + (halves ? " float16" : " float32") + " numbers" +
           (normalized ? ", normalized," : "") + " of model '" + std::string(model) + "'";
}

void append_row(std::string& rows, const VectorRow& row) {
    expect(row.vector.size() == row.kind.vector_bytes(), "a vector has the bytes that its kind says");
    const std::size_t bytes =
        sizeof(RowHead) + row.key.size() + row.output.size() + row.kind.model.size() + row.vector.size();
    expect(bytes <= std::numeric_limits<std::uint32_t>::max(), "a row is below 4 GiB");
    const RowHead head{.bytes = static_cast<std::uint32_t>(bytes),
                       .dimensions = row.kind.dimensions,
                       .item = row.item,
                       .flags = (row.kind.halves ? kHalves : 0) | (row.kind.normalized ? kNormalized : 0),
                       .key_bytes = static_cast<std::uint32_t>(row.key.size()),
                       .output_bytes = static_cast<std::uint32_t>(row.output.size()),
                       .model_bytes = static_cast<std::uint32_t>(row.kind.model.size())};
    rows.append(reinterpret_cast<const char*>(&head), sizeof head);
    rows.append(row.key).append(row.output).append(row.kind.model);
    rows.append(reinterpret_cast<const char*>(row.vector.data()), row.vector.size());
}

std::size_t first_row(std::string_view rows, VectorRow& row) {
    RowHead head;
    if (rows.size() < sizeof head) return 0;
    std::memcpy(&head, rows.data(), sizeof head);
    const VectorKind kind{.dimensions = head.dimensions,
                          .halves = (head.flags & kHalves) != 0,
                          .normalized = (head.flags & kNormalized) != 0};
    const std::uint64_t bytes =
        sizeof head + std::uint64_t{head.key_bytes} + head.output_bytes + head.model_bytes + kind.vector_bytes();
    if (head.bytes != bytes || bytes > rows.size()) return 0;
    std::string_view rest = rows.substr(sizeof head);
    const auto take = [&rest](std::size_t size) {
        const std::string_view taken = rest.substr(0, size);
        rest.remove_prefix(size);
        return taken;
    };
    row.item = head.item;
    row.kind = kind;
    row.key = take(head.key_bytes);
    row.output = take(head.output_bytes);
    row.kind.model = take(head.model_bytes);
    row.vector = std::as_bytes(std::span(take(kind.vector_bytes())));
    return bytes;
}

}  // namespace offramp
