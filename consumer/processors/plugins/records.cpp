#include <array>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "common/base/error.hpp"
#include "consumer/processors/class_ids.hpp"
#include "consumer/processors/input_columns.hpp"
#include "consumer/processors/processor.hpp"
#include "consumer/processors/segmentation_output.hpp"
#include "consumer/sinks/output_database.hpp"

namespace offramp {
namespace {

constexpr const char* kSchema =
    "CREATE TABLE records (item INTEGER PRIMARY KEY, key TEXT NOT NULL, status TEXT NOT NULL, files TEXT NOT NULL, classes TEXT, "
    "columns TEXT NOT NULL, model TEXT NOT NULL);"
    "CREATE INDEX records_by_key ON records (key);";

constexpr const char* kUpsert =
    "INSERT INTO records (item, key, status, files, classes, columns, model) VALUES (?, ?, 'done', ?, ?, ?, ?) "
    "ON CONFLICT (item) DO UPDATE SET key = excluded.key, status = excluded.status, files = excluded.files, classes = excluded.classes, "
    "columns = excluded.columns, model = excluded.model";

// A hole may also stand for an item that an earlier run has done: its row stays.
constexpr const char* kSkip =
    "INSERT INTO records (item, key, status, files, classes, columns, model) VALUES (?, ?, 'skipped', '{}', NULL, ?, ?) "
    "ON CONFLICT (item) DO NOTHING";

std::string text_of(const nlohmann::json& value) { return value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace); }

// Puts a row for each item into OUTPUT/records.sqlite: what became of it, the files that the other processors of the run leave for it,
// what share of its pixels is of which class, and what the input says of it. One transaction a slab.
class Records final : public Processor {
  public:
    Records(const std::string& folder, const ProcessorOptions& options)
        : companions_(options.companions),
          database_(folder, "records", kSchema, options.durability()),
          columns_(columns_of_input(*options.config, "records")) {}

    void process(const SlabContents& slab, const Progress& progress, const StillCurrent& still_current) override {
        const auto outputs = segmentation_outputs_if_any(slab);
        rows_.clear();
        for (const SampleView& sample : slab.samples) {
            progress();
            Row& row = rows_.emplace_back();
            row.sample = &sample;
            if (columns_) row.columns = sample.hole ? columns_->of_skipped(sample.key) : columns_->of(sample.key);
            if (sample.hole) continue;
            row.files = text_of(files_of_others(slab, sample));
            if (!outputs.empty()) row.classes = text_of(classes_of(outputs, sample.row, progress));
        }
        if (rows_.empty() || !still_current()) return;
        database_.transact([&](SqliteDatabase& database) { put_rows(database, slab.model); });
    }

  private:
    struct Row {
        const SampleView* sample = nullptr;
        std::string files;
        std::string classes;  // empty: the model has no classes
        std::string columns = "{}";
    };

    // {"mask-png": ["mask-png/a.png"]}: paths below the run's output folder.
    nlohmann::json files_of_others(const SlabContents& slab, const SampleView& sample) const {
        nlohmann::json files = nlohmann::json::object();
        if (companions_ == nullptr) return files;
        for (const NamedProcessor& other : *companions_)
            for (const std::string& file : other.processor->files_of(slab, sample)) files[other.name].push_back(other.name + "/" + file);
        return files;
    }

    // {"0": 0.75, "15": 0.25}; of several outputs {"out": {...}, "aux": {...}}.
    nlohmann::json classes_of(const std::vector<SegmentationOutput>& outputs, std::size_t row, const Progress& progress) {
        nlohmann::json all = nlohmann::json::object();
        for (const SegmentationOutput& output : outputs) {
            std::array<std::uint64_t, kMaxClasses> pixels{};
            const auto ids = ids_.of(output, row, progress);
            for (const std::uint8_t id : ids) ++pixels[id];
            nlohmann::json shares = nlohmann::json::object();
            for (std::size_t id = 0; id < pixels.size(); ++id)
                if (pixels[id] > 0) shares[std::to_string(id)] = static_cast<double>(pixels[id]) / static_cast<double>(ids.size());
            if (outputs.size() == 1) return shares;
            all[output.tensor->spec.name] = std::move(shares);
        }
        return all;
    }

    void put_rows(SqliteDatabase& database, const std::string& model) {
        SqliteStatement& upsert = database.prepared(kUpsert);
        SqliteStatement& skip = database.prepared(kSkip);
        for (const Row& row : rows_) {
            const auto item = static_cast<std::int64_t>(row.sample->item);
            if (row.sample->hole) {
                skip.bind(1, item).bind(2, row.sample->key).bind(3, row.columns).bind(4, model).run();
                continue;
            }
            upsert.bind(1, item).bind(2, row.sample->key).bind(3, row.files).bind(5, row.columns).bind(6, model);
            if (row.classes.empty())
                upsert.bind_nothing(4);
            else
                upsert.bind(4, row.classes);
            upsert.run();
        }
    }

    const std::vector<NamedProcessor>* companions_;
    OutputDatabase database_;
    std::optional<InputColumns> columns_;   // nothing: no input that has some
    ClassIds ids_;
    std::vector<Row> rows_;
};

}  // namespace

std::unique_ptr<Processor> make_records(const ProcessorOptions& options) {
    return std::make_unique<Records>(options.output_for("records"), options);
}

}  // namespace offramp
