#include "consumer/sinks/parquet/parquet_module.hpp"

#include <span>
#include <string>
#include <utility>

#include "common/base/error.hpp"
#include "common/base/files.hpp"
#include "common/base/own_module.hpp"
#include "consumer/sinks/files/atomic_file.hpp"
#include "consumer/sinks/parquet/vector_rows.hpp"
#include "consumer/sinks/segments/segment_file.hpp"

namespace offramp {
namespace {

constexpr const char* kFix =
    "No package contains it; a build from source does if pyarrow is installed. In a checkout, `launch/offramp run "
    "--processor embeddings-parquet` installs pyarrow and builds again. To use your own Python, run `pip install "
    "pyarrow` there and build with -DOFFRAMP_PYTHON=PATH. --processor embeddings-sqlite does not need it";

SegmentRecord first_of(std::string_view rows) {
    VectorRow row;
    const std::size_t bytes = first_row(rows, row);
    return {.item = row.item, .bytes = bytes, .damage = bytes == 0 ? "a row is not whole" : nullptr};
}

std::string rows_of(const std::string& merged, const std::string& scratch) {
    RecordWriter rows(scratch);
    std::string bytes;
    parquet_library().read_rows(merged, [&](const VectorRow& row) {
        bytes.clear();
        append_row(bytes, row);
        rows.add(bytes);
    });
    rows.commit();
    return scratch;
}

// Passes on rows, and checks that all have the first one's kind.
class RowsOfOneKind {
  public:
    // Reads the first rows. Borrows `next`. `path` is for errors.
    RowsOfOneKind(const NextRecords& next, std::string path) : next_(next), path_(std::move(path)), rows_(next()) {
        VectorRow first;
        expect(first_row(rows_, first) > 0, "there is a row to merge");
        model_ = first.kind.model;
        output_ = first.output;
        kind_ = first.kind;
        kind_.model = model_;
    }
    RowsOfOneKind(const RowsOfOneKind&) = delete;
    RowsOfOneKind& operator=(const RowsOfOneKind&) = delete;

    const VectorKind& kind() const { return kind_; }

    // Like NextRecords.
    std::string_view next() {
        const std::string_view rows = any_ ? next_() : rows_;
        any_ = true;
        VectorRow row;
        for (std::string_view rest = rows; !rest.empty();) {
            const std::size_t bytes = first_row(rest, row);
            expect(bytes > 0, "a merge gives whole rows");
            rest.remove_prefix(bytes);
            if (row.kind != kind_) refuse(row);
        }
        return rows;
    }

  private:
    [[noreturn]] void refuse(const VectorRow& row) const {
        throw ConfigError("vectors for " + path_ + " are of two kinds: output '" + output_ + "' has " +
                              kind_.describe() + ", output '" + std::string(row.output) + "' " + row.kind.describe(),
                          "Give --overwrite instead of --resume, or another --output");
    }

    const NextRecords& next_;
    std::string path_;
    std::string_view rows_;  // the first item's rows, until they are returned
    bool any_ = false;
    std::string model_, output_;
    VectorKind kind_;
};

void write_file(const std::string& path, const NextRecords& next, Durability durability) {
    RowsOfOneKind rows(next, path);
    AtomicFile file(path, durability);
    parquet_library().write_rows(
        rows.kind(), [&rows] { return rows.next(); }, [&file](std::span<const std::byte> bytes) { file.write(bytes); });
    file.commit();
}

}  // namespace

const ParquetModule& parquet_library() {
    static const ParquetModule& module = open_own_module<ParquetModuleFunction>({.name = "module for Parquet",
                                                                                 .file = "libofframp_parquet.so",
                                                                                 .symbol = kParquetModuleSymbol,
                                                                                 .abi = kParquetModuleAbi,
                                                                                 .fix = kFix});
    return module;
}

const SegmentForm& vectors_form() {
    static constexpr SegmentForm kVectors{.first = &first_of, .records_of = &rows_of, .write = &write_file};
    return kVectors;
}

}  // namespace offramp
