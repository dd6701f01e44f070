// libofframp_parquet_texts.so: reads rows of Parquet files with Arrow. Only this file of the room includes Arrow.
#include <arrow/api.h>
#include <arrow/io/api.h>
#include <arrow/util/float16.h>
#include <parquet/arrow/reader.h>
#include <parquet/file_reader.h>
#include <parquet/metadata.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <memory>
#include <nlohmann/json.hpp>

#include "common/app/texts/parquet_rows.hpp"
#include "common/base/error.hpp"
#include "common/base/utf8.hpp"

namespace offramp {
namespace {

using nlohmann::json;

[[noreturn]] void refuse(const std::string& why, const std::string& remedy) {
    throw Error(ErrorKind::BadInput, why, remedy);
}

constexpr const char* kDamaged = "The file is damaged or incomplete: copy or write it again";

// Arrow's memory for one file, with a limit. Thread: any, because Arrow may use several.
class BoundedPool final : public arrow::MemoryPool {
  public:
    explicit BoundedPool(std::uint64_t most) : most_(static_cast<std::int64_t>(most)) {}

    using MemoryPool::Allocate;
    using MemoryPool::Free;
    using MemoryPool::Reallocate;
    arrow::Status Allocate(std::int64_t size, std::int64_t alignment, std::uint8_t** out) override {
        ARROW_RETURN_NOT_OK(take(size));
        const arrow::Status status = pool_.Allocate(size, alignment, out);
        if (!status.ok()) taken_ -= size;
        return status;
    }
    arrow::Status Reallocate(std::int64_t old_size, std::int64_t new_size, std::int64_t alignment,
                             std::uint8_t** at) override {
        ARROW_RETURN_NOT_OK(take(new_size - old_size));
        const arrow::Status status = pool_.Reallocate(old_size, new_size, alignment, at);
        if (!status.ok()) taken_ -= new_size - old_size;
        return status;
    }
    void Free(std::uint8_t* buffer, std::int64_t size, std::int64_t alignment) override {
        pool_.Free(buffer, size, alignment);
        taken_ -= size;
    }
    std::int64_t bytes_allocated() const override { return taken_; }
    std::int64_t total_bytes_allocated() const override { return pool_.total_bytes_allocated(); }
    std::int64_t num_allocations() const override { return pool_.num_allocations(); }
    std::string backend_name() const override { return pool_.backend_name(); }

  private:
    arrow::Status take(std::int64_t size) {
        if (taken_.fetch_add(size) <= most_ - size) return arrow::Status::OK();
        taken_ -= size;
        return arrow::Status::CapacityError("it needs more than ", most_ >> 20, " MiB at a time");
    }

    arrow::MemoryPool& pool_ = *arrow::default_memory_pool();
    const std::int64_t most_;
    std::atomic<std::int64_t> taken_ = 0;
};

constexpr const char* kSmallerGroups =
    "The file is intact: write it with smaller row groups (pyarrow: write_table(..., row_group_size=10000)), or select "
    "the columns you need with --columns";

constexpr const char* kAnotherType =
    "The file is intact: write it with another compression or type of the column, or select the columns you need with "
    "--columns";

// True for a column with more than 2 GiB in one row group, of a type that Arrow cannot read in pieces (mostly lists).
bool is_of_size(const arrow::Status& status) {
    return status.IsCapacityError() || status.message().find("chunked array") != std::string::npos;
}

// Distinguishes damage from other reasons for which Arrow rejects a file.
void check(const arrow::Status& status, const std::string& where) {
    if (status.ok()) return;
    const std::string why = where + status.ToStringWithoutContextLines();
    if (status.IsOutOfMemory())
        throw Error(ErrorKind::System, why, "Free memory, or write the file with smaller row groups");
    refuse(why, is_of_size(status) ? kSmallerGroups : status.IsNotImplemented() ? kAnotherType : kDamaged);
}

template <class Value>
Value checked(arrow::Result<Value> result, const std::string& where) {
    check(result.status(), where);
    return std::move(result).ValueUnsafe();
}

json text_of(std::string_view text, const std::string& column) {
    if (!is_utf8(text)) {
        std::size_t at = 0;
        while (const std::size_t bytes = utf8_character_bytes(text.substr(at))) at += bytes;
        refuse("its \"" + printable(column) + "\" is not UTF-8 from byte " + std::to_string(at + 1) + " on",
               "Write the column as text in UTF-8. --columns can leave out any column except id and text");
    }
    return std::string(text);
}

// Arrow does not check a dictionary's indexes from the file, so an index may have no entry.
bool has_dictionary(const arrow::DataType& type) {
    const auto& fields = type.fields();
    return type.id() == arrow::Type::DICTIONARY ||
           std::any_of(fields.begin(), fields.end(), [](const auto& field) { return has_dictionary(*field->type()); });
}

std::string duration_text(const arrow::DurationArray& array, std::int64_t at) {
    const auto unit = static_cast<const arrow::DurationType&>(*array.type()).unit();
    const char* const name = unit == arrow::TimeUnit::SECOND  ? "s"
                             : unit == arrow::TimeUnit::MILLI ? "ms"
                             : unit == arrow::TimeUnit::MICRO ? "us"
                                                              : "ns";
    return std::to_string(array.Value(at)) + " " + name;
}

// `array[at]`. A list or struct becomes a list or object, a map a list of {"key": ..., "value": ...}.
json value_of(const arrow::Array& array, std::int64_t at, const std::string& column) {
    if (array.IsNull(at)) return nullptr;
    const auto as = [&array]<class Array>(const Array*) -> const Array& { return static_cast<const Array&>(array); };
    const auto value = [&]<class Array>(const Array* kind) -> json { return as(kind).Value(at); };
    const auto view = [&]<class Array>(const Array* kind) { return text_of(as(kind).GetView(at), column); };
    const auto list = [&]<class Array>(const Array* kind) {
        json values = json::array();
        const Array& lists = as(kind);
        for (std::int64_t i = lists.value_offset(at); i < lists.value_offset(at) + lists.value_length(at); ++i)
            values.push_back(value_of(*lists.values(), i, column));
        return values;
    };
    using arrow::Type;
    switch (array.type_id()) {
        case Type::NA:
            return nullptr;
        case Type::BOOL:
            return value(static_cast<const arrow::BooleanArray*>(nullptr));
        case Type::INT8:
            return value(static_cast<const arrow::Int8Array*>(nullptr));
        case Type::INT16:
            return value(static_cast<const arrow::Int16Array*>(nullptr));
        case Type::INT32:
            return value(static_cast<const arrow::Int32Array*>(nullptr));
        case Type::INT64:
            return value(static_cast<const arrow::Int64Array*>(nullptr));
        case Type::UINT8:
            return value(static_cast<const arrow::UInt8Array*>(nullptr));
        case Type::UINT16:
            return value(static_cast<const arrow::UInt16Array*>(nullptr));
        case Type::UINT32:
            return value(static_cast<const arrow::UInt32Array*>(nullptr));
        case Type::UINT64:
            return value(static_cast<const arrow::UInt64Array*>(nullptr));
        case Type::HALF_FLOAT:
            return arrow::util::Float16::FromBits(static_cast<const arrow::HalfFloatArray&>(array).Value(at)).ToFloat();
        case Type::FLOAT:
            return value(static_cast<const arrow::FloatArray*>(nullptr));
        case Type::DOUBLE:
            return value(static_cast<const arrow::DoubleArray*>(nullptr));
        case Type::STRING:
            return view(static_cast<const arrow::StringArray*>(nullptr));
        case Type::LARGE_STRING:
            return view(static_cast<const arrow::LargeStringArray*>(nullptr));
        case Type::STRING_VIEW:
            return view(static_cast<const arrow::StringViewArray*>(nullptr));
        case Type::LIST:
            return list(static_cast<const arrow::ListArray*>(nullptr));
        case Type::MAP:
            return list(static_cast<const arrow::MapArray*>(nullptr));
        case Type::LARGE_LIST:
            return list(static_cast<const arrow::LargeListArray*>(nullptr));
        case Type::FIXED_SIZE_LIST:
            return list(static_cast<const arrow::FixedSizeListArray*>(nullptr));
        case Type::DICTIONARY: {
            const auto& dictionary = static_cast<const arrow::DictionaryArray&>(array);
            return value_of(*dictionary.dictionary(), dictionary.GetValueIndex(at), column);
        }
        case Type::STRUCT: {
            const auto& fields = static_cast<const arrow::StructArray&>(array);
            json object = json::object();
            for (int i = 0; i < fields.num_fields(); ++i)
                object[fields.struct_type()->field(i)->name()] = value_of(*fields.field(i), at, column);
            return object;
        }
        case Type::DURATION:
            return duration_text(static_cast<const arrow::DurationArray&>(array), at);
        case Type::BINARY:
        case Type::LARGE_BINARY:
        case Type::BINARY_VIEW:
        case Type::FIXED_SIZE_BINARY:
            refuse("its \"" + printable(column) + "\" is bytes (" + array.type()->ToString() + "), not text",
                   "Write the column as text. --columns can leave out any column except id and text");
        default:
            return checked(array.GetScalar(at), "")->ToString();
    }
}

// Iterates over a column that may have several pieces: Arrow begins another piece if texts exceed 2 GiB.
class Cells {
  public:
    Cells(std::shared_ptr<arrow::ChunkedArray> column, std::string name)
        : column_(std::move(column)), name_(std::move(name)) {}

    const std::string& name() const { return name_; }
    std::int64_t rows() const { return column_->length(); }
    // The next cell's value. There must be one.
    json next() {
        while (at_ == column_->chunk(chunk_)->length()) {
            ++chunk_;
            at_ = 0;
        }
        return value_of(*column_->chunk(chunk_), at_++, name_);
    }

  private:
    std::shared_ptr<arrow::ChunkedArray> column_;
    std::string name_;
    int chunk_ = 0;
    std::int64_t at_ = 0;
};

class File final : public ParquetRows {
  public:
    File(const std::string& path, std::uint64_t most_bytes) : pool_(most_bytes) {
        const auto file = checked(arrow::io::ReadableFile::Open(path), "");
        reader_ = checked(parquet::arrow::OpenFile(file, &pool_), "not a complete Parquet file: ");
        check(reader_->GetSchema(&schema_), "");
    }

    std::vector<std::string> columns() const override { return schema_->field_names(); }

    std::vector<std::uint64_t> rows_of_groups() const override {
        std::vector<std::uint64_t> rows;
        const auto metadata = reader_->parquet_reader()->metadata();
        for (int group = 0; group < metadata->num_row_groups(); ++group)
            rows.push_back(static_cast<std::uint64_t>(metadata->RowGroup(group)->num_rows()));
        return rows;
    }

    void read(std::size_t group, const std::vector<std::string>& columns,
              const std::function<void(json&&)>& found) override {
        const std::string where = "row group " + std::to_string(group + 1) + ": ";
        std::vector<Cells> read;
        for (const std::string& column : columns) {
            std::shared_ptr<arrow::ChunkedArray> values;
            const auto reader = reader_->RowGroup(static_cast<int>(group))->Column(schema_->GetFieldIndex(column));
            const std::string in_column = where + "its \"" + printable(column) + "\": ";
            check(reader->Read(&values), in_column);
            for (const auto& chunk : values->chunks())
                check(has_dictionary(*chunk->type()) ? chunk->ValidateFull() : chunk->Validate(), in_column);
            read.emplace_back(std::move(values), column);
        }
        const std::int64_t rows = read.empty() ? 0 : read.front().rows();
        for (const Cells& column : read)
            if (column.rows() != rows)
                refuse(where + "its \"" + printable(column.name()) + "\" has " + std::to_string(column.rows()) +
                           " rows, but its \"" + printable(read.front().name()) + "\" " + std::to_string(rows),
                       kDamaged);
        for (std::int64_t row = 0; row < rows; ++row) {
            json object = json::object();
            try {
                for (Cells& column : read) object[column.name()] = column.next();
            } catch (const Error& problem) {
                if (problem.kind() != ErrorKind::BadInput) throw;
                refuse(where + "row " + std::to_string(row + 1) + ": " + problem.what(), {});
            }
            found(std::move(object));
        }
    }

  private:
    BoundedPool pool_;
    std::unique_ptr<parquet::arrow::FileReader> reader_;
    std::shared_ptr<arrow::Schema> schema_;
};

// Translates Arrow's own exceptions, which the program does not know.
template <class Work>
auto translate_errors(const Work& work) {
    try {
        return work();
    } catch (const Error&) {
        throw;
    } catch (const parquet::ParquetException& problem) {
        refuse(problem.what(), kDamaged);
    }
}

class Guarded final : public ParquetRows {
  public:
    Guarded(const std::string& path, std::uint64_t most_bytes) : file_(path, most_bytes) {}
    std::vector<std::string> columns() const override {
        return translate_errors([&] { return file_.columns(); });
    }
    std::vector<std::uint64_t> rows_of_groups() const override {
        return translate_errors([&] { return file_.rows_of_groups(); });
    }
    void read(std::size_t group, const std::vector<std::string>& columns,
              const std::function<void(json&&)>& found) override {
        translate_errors([&] { file_.read(group, columns, found); });
    }

  private:
    File file_;
};

std::unique_ptr<ParquetRows> open_file(const std::string& path, std::uint64_t most_bytes) {
    return translate_errors(
        [&]() -> std::unique_ptr<ParquetRows> { return std::make_unique<Guarded>(path, most_bytes); });
}

}  // namespace
}  // namespace offramp

extern "C" const offramp::ParquetRowsModule* offramp_parquet_texts_v1();
extern "C" const offramp::ParquetRowsModule* offramp_parquet_texts_v1() {
    static const offramp::ParquetRowsModule module{.open = &offramp::open_file};
    return &module;
}
