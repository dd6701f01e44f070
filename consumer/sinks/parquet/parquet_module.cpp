// libofframp_parquet.so: writes and reads vectors in Parquet files with Arrow. No other file includes Arrow.
#include "consumer/sinks/parquet/parquet_module.hpp"

#include <arrow/api.h>
#include <arrow/io/api.h>
#include <parquet/arrow/reader.h>
#include <parquet/arrow/writer.h>

#include <algorithm>
#include <exception>
#include <memory>
#include <span>
#include <vector>

#include "common/base/error.hpp"
#include "common/base/finite_numbers.hpp"
#include "common/base/utf8.hpp"

namespace offramp {
namespace {

// Rows per row group: 100 MB for 384 float32 numbers.
constexpr std::int64_t kRowsInGroup = 65536;
constexpr std::int64_t kColumnsInGroup = std::int64_t{256} << 20;  // bytes

void check(const arrow::Status& status, const std::string& tried) {
    if (!status.ok()) throw Error(ErrorKind::System, "Parquet: " + tried + ": " + status.ToString());
}

template <class Value>
Value checked(arrow::Result<Value> result, const std::string& tried) {
    check(result.status(), tried);
    return std::move(result).ValueUnsafe();
}

// Passes on the bytes that Arrow writes. Stores an exception of `write` until Arrow, which does not handle exceptions,
// has returned.
class ForwardingStream final : public arrow::io::OutputStream {
  public:
    explicit ForwardingStream(const std::function<void(std::span<const std::byte>)>& write) : write_(write) {}
    ~ForwardingStream() override = default;

    arrow::Status Write(const void* data, std::int64_t bytes) override {
        try {
            if (!problem_) write_({static_cast<const std::byte*>(data), static_cast<std::size_t>(bytes)});
        } catch (...) {
            problem_ = std::current_exception();
        }
        at_ += bytes;
        return problem_ ? arrow::Status::IOError("written bytes could not be passed on") : arrow::Status::OK();
    }
    arrow::Status Close() override {
        closed_ = true;
        return arrow::Status::OK();
    }
    arrow::Result<std::int64_t> Tell() const override { return at_; }
    bool closed() const override { return closed_; }

    void rethrow() const {
        if (problem_) std::rethrow_exception(problem_);
    }

  private:
    const std::function<void(std::span<const std::byte>)>& write_;
    std::exception_ptr problem_;
    std::int64_t at_ = 0;
    bool closed_ = false;
};

std::shared_ptr<arrow::DataType> number_of(const VectorKind& kind) {
    return kind.halves ? arrow::float16() : arrow::float32();
}

std::shared_ptr<arrow::Schema> schema_of(const VectorKind& kind) {
    const auto vector = arrow::fixed_size_list(arrow::field("element", number_of(kind), false),
                                               static_cast<std::int32_t>(kind.dimensions));
    arrow::FieldVector fields{arrow::field("key", arrow::utf8(), false), arrow::field("output", arrow::utf8(), false),
                              arrow::field("item", arrow::int64(), false), arrow::field("vector", vector)};
    if (kind.columns) {
        fields.push_back(arrow::field("id", arrow::utf8(), false));
        fields.push_back(arrow::field("columns", arrow::utf8(), false));
    }
    if (kind.chunks)
        for (const char* name : {"chunk", "start_char", "end_char"})
            fields.push_back(arrow::field(name, arrow::int64(), false));
    return arrow::schema(fields,
                         arrow::key_value_metadata({"model", "normalized"},
                                                   {std::string(kind.model), kind.normalized ? "true" : "false"}));
}

// Parquet's texts are UTF-8; each invalid byte becomes U+FFFD.
std::string sound(std::string_view text) {
    if (is_utf8(text)) return std::string(text);
    std::string mended;
    while (!text.empty()) {
        const std::size_t bytes = utf8_character_bytes(text);
        mended += bytes == 0 ? "\xef\xbf\xbd" : std::string(text.substr(0, bytes));
        text.remove_prefix(std::max<std::size_t>(bytes, 1));
    }
    return mended;
}

// The columns of one row group.
class Group {
  public:
    explicit Group(const VectorKind& kind) : kind_(kind) {}

    void add(const VectorRow& row) {
        check(keys_.Append(sound(row.key)), "a key");
        check(outputs_.Append(sound(row.output)), "an output's name");
        check(items_.Append(static_cast<std::int64_t>(row.item)), "an item's number");
        check(numbers_.Append(row.vector.data(), static_cast<std::int64_t>(row.vector.size())), "a vector");
        check(held_.Append(all_finite(row.vector, kind_.halves ? 2 : 4)), "whether there is a vector");
        if (kind_.columns) {
            check(ids_.Append(sound(row.id)), "an id");
            check(columns_.Append(sound(row.columns)), "columns");
        }
        if (kind_.chunks) {
            check(chunks_.Append(static_cast<std::int64_t>(row.chunk)), "a chunk");
            check(starts_.Append(static_cast<std::int64_t>(row.start_char)), "a chunk's begin");
            check(ends_.Append(static_cast<std::int64_t>(row.end_char)), "a chunk's end");
        }
        ++rows_;
    }

    std::shared_ptr<arrow::Table> finish(const std::shared_ptr<arrow::Schema>& schema) {
        const std::int64_t count = rows_ * static_cast<std::int64_t>(kind_.dimensions);
        const auto numbers = arrow::MakeArray(
            arrow::ArrayData::Make(number_of(kind_), count, {nullptr, checked(numbers_.Finish(), "the vectors")}, 0));
        const std::int64_t nulls = held_.false_count();
        const auto held = checked(held_.Finish(), "which vectors there are");
        const auto vectors = std::make_shared<arrow::FixedSizeListArray>(schema->field(3)->type(), rows_, numbers,
                                                                         nulls > 0 ? held : nullptr, nulls);
        arrow::ArrayVector arrays{checked(keys_.Finish(), "the keys"), checked(outputs_.Finish(), "the outputs"),
                                  checked(items_.Finish(), "the items"), vectors};
        if (kind_.columns) {
            arrays.push_back(checked(ids_.Finish(), "the ids"));
            arrays.push_back(checked(columns_.Finish(), "the columns"));
        }
        if (kind_.chunks)
            for (arrow::Int64Builder* builder : {&chunks_, &starts_, &ends_})
                arrays.push_back(checked(builder->Finish(), "the chunks"));
        const auto table = arrow::Table::Make(schema, arrays, rows_);
        rows_ = 0;
        return table;
    }

    // Texts of one column of a group stay within the range of Arrow's offsets.
    bool is_full() const { return rows_ == kRowsInGroup || columns_.value_data_length() > kColumnsInGroup; }
    std::int64_t rows() const { return rows_; }

  private:
    const VectorKind& kind_;
    arrow::StringBuilder keys_, outputs_, ids_, columns_;
    arrow::Int64Builder items_, chunks_, starts_, ends_;
    arrow::BufferBuilder numbers_;
    arrow::TypedBufferBuilder<bool> held_;  // for each row: its vector can be stored; else NULL
    std::int64_t rows_ = 0;
};

void write_all(const VectorKind& kind, const std::function<std::string_view()>& next,
               const std::shared_ptr<ForwardingStream>& file) {
    const auto schema = schema_of(kind);
    parquet::WriterProperties::Builder properties;
    properties.disable_dictionary()->enable_dictionary("output")->created_by("offramp")->max_row_group_length(
        kRowsInGroup);
    const auto writer =
        checked(parquet::arrow::FileWriter::Open(*schema, arrow::default_memory_pool(), file, properties.build(),
                                                 parquet::ArrowWriterProperties::Builder().store_schema()->build()),
                "beginning a file");
    Group group(kind);
    const auto write_group = [&] { check(writer->WriteTable(*group.finish(schema), kRowsInGroup), "writing rows"); };
    VectorRow row;
    for (std::string_view rows = next(); !rows.empty(); rows = next()) {
        while (!rows.empty()) {
            const std::size_t bytes = first_row(rows, row);
            expect(bytes > 0 && row.kind == kind, "rows are whole, and all of one kind");
            group.add(row);
            rows.remove_prefix(bytes);
            if (group.is_full()) write_group();
        }
    }
    if (group.rows() > 0) write_group();
    check(writer->Close(), "ending a file");
}

void write_rows(const VectorKind& kind, const std::function<std::string_view()>& next,
                const std::function<void(std::span<const std::byte>)>& write) {
    const auto file = std::make_shared<ForwardingStream>(write);
    try {
        write_all(kind, next, file);
    } catch (const Error&) {
        file->rethrow();
        throw;
    }
}

// A column by name; `path` is for the error.
template <class Array>
const Array& column_of(const arrow::RecordBatch& batch, const char* name, const std::string& path) {
    const auto column = batch.GetColumnByName(name);
    const auto* array = dynamic_cast<const Array*>(column.get());
    if (array == nullptr)
        throw Error(ErrorKind::System, "Parquet: " + path + " has no column '" + name + "' as this program writes it",
                    "Move it away");
    return *array;
}

void read_rows(const std::string& path, const std::function<void(const VectorRow&)>& found) {
    const auto file = checked(arrow::io::ReadableFile::Open(path), "opening " + path);
    const auto reader = checked(parquet::arrow::OpenFile(file, arrow::default_memory_pool()), "opening " + path);
    std::shared_ptr<arrow::Schema> schema;
    check(reader->GetSchema(&schema), "reading " + path);
    const auto notes = schema->metadata();
    const std::string model = notes ? notes->Get("model").ValueOr("") : "";
    const bool normalized = notes && notes->Get("normalized").ValueOr("") == "true";
    const auto batches = checked(reader->GetRecordBatchReader(), "reading " + path);
    while (const auto batch = checked(batches->Next(), "reading " + path)) {
        const auto& keys = column_of<arrow::StringArray>(*batch, "key", path);
        const auto& outputs = column_of<arrow::StringArray>(*batch, "output", path);
        const auto& items = column_of<arrow::Int64Array>(*batch, "item", path);
        const auto& vectors = column_of<arrow::FixedSizeListArray>(*batch, "vector", path);
        const bool has_columns = batch->GetColumnByName("columns") != nullptr;
        const auto* ids = has_columns ? &column_of<arrow::StringArray>(*batch, "id", path) : nullptr;
        const auto* columns = has_columns ? &column_of<arrow::StringArray>(*batch, "columns", path) : nullptr;
        const bool has_chunks = batch->GetColumnByName("chunk") != nullptr;
        const auto* chunks = has_chunks ? &column_of<arrow::Int64Array>(*batch, "chunk", path) : nullptr;
        const auto* starts = has_chunks ? &column_of<arrow::Int64Array>(*batch, "start_char", path) : nullptr;
        const auto* ends = has_chunks ? &column_of<arrow::Int64Array>(*batch, "end_char", path) : nullptr;
        const VectorKind kind{.dimensions = static_cast<std::uint32_t>(vectors.list_type()->list_size()),
                              .halves = vectors.list_type()->value_type()->id() == arrow::Type::HALF_FLOAT,
                              .normalized = normalized,
                              .columns = has_columns,
                              .chunks = has_chunks,
                              .model = model};
        if (!kind.halves && vectors.list_type()->value_type()->id() != arrow::Type::FLOAT)
            throw Error(ErrorKind::System, "Parquet: " + path + " has vectors of another type than this program writes",
                        "Move it away");
        const auto& numbers = static_cast<const arrow::PrimitiveArray&>(*vectors.values());
        const auto* bytes = reinterpret_cast<const std::byte*>(numbers.values()->data());
        // The value that stands for NULL, and becomes NULL again.
        const std::vector<std::byte> unheld(kind.vector_bytes(), std::byte{0xff});
        for (std::int64_t i = 0; i < batch->num_rows(); ++i) {
            const std::size_t at =
                static_cast<std::size_t>(vectors.value_offset(i) + numbers.offset()) * (kind.halves ? 2 : 4);
            found({.item = static_cast<std::uint64_t>(items.Value(i)),
                   .kind = kind,
                   .key = keys.GetView(i),
                   .output = outputs.GetView(i),
                   .vector = vectors.IsNull(i) ? std::span<const std::byte>(unheld)
                                               : std::span(bytes + at, kind.vector_bytes()),
                   .id = has_columns ? ids->GetView(i) : std::string_view(),
                   .columns = has_columns ? columns->GetView(i) : std::string_view(),
                   .chunk = has_chunks ? static_cast<std::uint64_t>(chunks->Value(i)) : 0,
                   .start_char = has_chunks ? static_cast<std::uint64_t>(starts->Value(i)) : 0,
                   .end_char = has_chunks ? static_cast<std::uint64_t>(ends->Value(i)) : 0});
        }
    }
}

}  // namespace
}  // namespace offramp

extern "C" const offramp::ParquetModule* offramp_parquet_v1();
extern "C" const offramp::ParquetModule* offramp_parquet_v1() {
    static const offramp::ParquetModule module{.write_rows = &offramp::write_rows, .read_rows = &offramp::read_rows};
    return &module;
}
