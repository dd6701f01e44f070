// A table of texts in Parquet. The project's code around Arrow is instrumented: here the module is part of the program
// and not opened at run time.

#include "common/app/texts/parquet_texts.hpp"

#include <arrow/api.h>
#include <arrow/io/api.h>
#include <parquet/arrow/writer.h>
#include <stdlib.h>

#include "common/base/error.hpp"
#include "tests/fuzz/fuzz_target.hpp"
#include "tests/fuzz/scratch_folder.hpp"
#include "tests/fuzz/table_check.hpp"

extern "C" const offramp::ParquetRowsModule* offramp_parquet_texts_v1();

namespace offramp {

// Replaces the room's function, which comes later on the linker's line.
const ParquetRowsModule& parquet_rows_library() {
    static const ParquetRowsModule module{
        .open = [](const std::string& path, std::uint64_t) -> std::unique_ptr<ParquetRows> {
            constexpr std::uint64_t kMost = std::uint64_t{64} << 20U;  // limit for the growth of a few kilobytes
            return offramp_parquet_texts_v1()->open(path, kMost);
        }};
    return module;
}

namespace {

template <class Builder, class... Values>
std::shared_ptr<arrow::Array> column_of(Builder&& builder, const Values&... values) {
    for (const arrow::Status& status : {builder.Append(values)...}) expect(status.ok(), "Arrow takes a value");
    return builder.Finish().ValueOrDie();
}

std::string parquet_file(const std::vector<std::string>& names,
                         const std::vector<std::shared_ptr<arrow::Array>>& columns,
                         parquet::Compression::type compression, std::int64_t group) {
    arrow::FieldVector fields;
    for (std::size_t i = 0; i < names.size(); ++i) fields.push_back(arrow::field(names[i], columns[i]->type()));
    const auto sink = arrow::io::BufferOutputStream::Create().ValueOrDie();
    const auto properties = parquet::WriterProperties::Builder().compression(compression)->build();
    const auto kept = parquet::ArrowWriterProperties::Builder().store_schema()->build();
    const auto status = parquet::arrow::WriteTable(*arrow::Table::Make(arrow::schema(fields), columns),
                                                   arrow::default_memory_pool(), sink, group, properties, kept);
    expect(status.ok(), "Arrow writes a table");
    return sink->Finish().ValueOrDie()->ToString();
}

std::vector<std::string> seeds() {
    const auto ids = column_of(arrow::StringBuilder(), "a", "b", "c");
    const auto numbers = column_of(arrow::Int64Builder(), 7, 8, 9);
    const auto texts = column_of(arrow::StringBuilder(), "one", "two two two", "");
    const auto large = column_of(arrow::LargeStringBuilder(), "one", "two", "three");
    const auto reals = column_of(arrow::DoubleBuilder(), 0.5, 1e300, -1.0);
    const auto coded = column_of(arrow::StringDictionaryBuilder(), "x", "y", "x");
    const auto days = column_of(arrow::Date32Builder(), 1, 2, 20'000);
    arrow::ListBuilder lists(arrow::default_memory_pool(), std::make_shared<arrow::Int32Builder>());
    for (int i = 0; i < 3; ++i)
        expect(lists.Append().ok() && static_cast<arrow::Int32Builder*>(lists.value_builder())->Append(i).ok(),
               "Arrow takes a value");
    const auto listed = lists.Finish().ValueOrDie();
    const auto nested = arrow::StructArray::Make({reals, listed}, std::vector<std::string>{"x", "l"}).ValueOrDie();
    using parquet::Compression;
    return {parquet_file({"id", "text"}, {ids, texts}, Compression::UNCOMPRESSED, 2),
            parquet_file({"id", "text", "n"}, {numbers, large, reals}, Compression::SNAPPY, 3),
            parquet_file({"id", "text", "n", "d"}, {ids, coded, nested, days}, Compression::UNCOMPRESSED, 3),
            parquet_file({"id", "text"}, {coded, texts}, Compression::ZSTD, 3)};
}

}  // namespace

FuzzTarget make_parquet_texts() {
    ::setenv("ARROW_DEFAULT_MEMORY_POOL", "system", 1);  // so that the sanitizer sees the ends of Arrow's buffers
    const auto folder = std::make_shared<ScratchFolder>();
    const auto feed = [folder](std::span<const std::byte> input) {
        InputSettings config;
        config.source = "parquet-text";
        config.input = folder->write("texts.parquet", input);
        check_table([&] { return std::make_unique<ParquetTexts>(config); });
    };
    return {feed, seeds()};
}

}  // namespace offramp
