#include <filesystem>
#include <system_error>

#include "common/app/images/item_keys.hpp"
#include "common/base/error.hpp"
#include "common/wire/shape_text.hpp"
#include "producer/runner/sources/batch_source.hpp"
#include "producer/runner/sources/npy_file.hpp"
#include "producer/runner/sources/npy_folder.hpp"

namespace offramp {
namespace {

// The rows of one array.
class NpySource final : public BatchSource {
  public:
    explicit NpySource(const SourceOptions& options)
        : file_(options.input->input),
          layout_(NpyRowLayout::of(file_, options.model_input, options.model->model, options.model_takes_images)) {
        file_.settle(layout_.from_bytes());
        description_ = "npy: " + std::to_string(items()) + " rows of " + shape_text(layout_.shape) + " " +
                       file_.header().descr + " in " + printable(file_.path());
    }

    std::string description() const override { return description_; }
    std::uint64_t items() const override { return file_.rows(); }
    RowKind row_kind() const override { return layout_.to; }
    std::string_view key(std::uint64_t) const override { return {}; }
    std::size_t max_key_bytes() const override { return 0; }
    std::string origin(std::uint64_t item) const override {
        return printable(file_.path()) + " row " + std::to_string(item);
    }
    std::uint64_t note_hash(std::uint64_t item) const override { return file_.note_hash(item); }
    void load(std::uint64_t item, std::span<std::byte> row) override { stage_row(file_, item, layout_, row); }

  private:
    NpyFile file_;
    NpyRowLayout layout_;
    std::string description_;
};

}  // namespace

// The rows of an array in a .npy file, [items, ...]. float32 and float16 are the model's input itself. 8-bit numbers
// are pixels if the model takes pictures ([H, W, 3] or [3, H, W]), otherwise numbers of 0 to 255. From a folder: one
// array per item, or, for a model of several arrays, their rows.
std::unique_ptr<BatchSource> make_npy(const SourceOptions& options) {
    if (options.input->input.empty())
        throw ConfigError("--input '': the source npy needs an input and none is given", "Give --input a .npy file",
                          ErrorKind::NoInput);
    if (!options.parts.empty()) return make_npy_folder(options);
    std::error_code ignored;
    if (std::filesystem::is_directory(options.input->input, ignored)) return make_npy_cases(options);
    return std::make_unique<NpySource>(options);
}

}  // namespace offramp
