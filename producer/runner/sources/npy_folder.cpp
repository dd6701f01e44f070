#include "producer/runner/sources/npy_folder.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <deque>
#include <filesystem>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "common/app/images/item_keys.hpp"
#include "common/base/error.hpp"
#include "common/numerics/float16_bits.hpp"
#include "common/wire/dtype_names.hpp"
#include "producer/runner/sources/npy_file.hpp"

namespace offramp {
namespace {

constexpr std::size_t kBlockHalves = std::size_t{8} << 10;

// One file, whose rows fill one part.
class PartFile {
  public:
    PartFile(const std::string& folder, const InputPart& part, const std::string& model)
        : part_(part), file_((std::filesystem::path(folder) / (part.tensor.name + ".npy")).string()) {
        const std::string wanted = npy_dtype(part.tensor.dtype);
        const std::string& found = file_.header().descr;
        widened_ = part.tensor.dtype == kFloat32 && found == "<f2";
        if (!widened_ && found != wanted && !(part.tensor.dtype.bits == 8 && found == "<" + wanted.substr(1)))
            file_.refuse("its elements are " + printable(found) + ", and the input '" + part.tensor.name +
                             "' of the model '" + model + "' takes " + to_string(part.tensor.dtype),
                         "Save array.astype('" + wanted + "')");
        const std::span<const std::int64_t> shape(part.tensor.shape.data() + 1, part.tensor.dims - 1);
        if (!std::ranges::equal(file_.row_shape(), shape))
            file_.refuse("an array " + file_.describe() + " has rows of " + shape_text(file_.row_shape()) +
                             ", and the input '" + part.tensor.name + "' of the model '" + model + "' takes " +
                             shape_text(shape),
                         "Bring it to that shape");
        file_.settle(widened_ ? 2 : part.tensor.dtype.bytes());
    }

    const NpyFile& file() const { return file_; }

    // `row` is a complete row of all the parts.
    void load(std::uint64_t item, std::span<std::byte> row) const {
        const auto to = row.subspan(part_.offset, part_.tensor.row_bytes());
        if (widened_) return widen(item, to);
        file_.read(item, 0, to);
        // Any other byte would be an invalid bool for its reader.
        if (part_.tensor.dtype == kBool)
            for (std::byte& value : to) value = std::byte{value != std::byte{0}};
    }

  private:
    void widen(std::uint64_t item, std::span<std::byte> to) const {
        std::array<std::uint16_t, kBlockHalves> block;
        const std::size_t halves = to.size() / sizeof(float);
        for (std::size_t done = 0; done < halves;) {
            const auto some = std::span(block).first(std::min(block.size(), halves - done));
            file_.read(item, done * sizeof(std::uint16_t), std::as_writable_bytes(some));
            for (const std::uint16_t half : some) {
                const float value = float_of_float16(half);
                std::memcpy(to.data() + done++ * sizeof value, &value, sizeof value);
            }
        }
    }

    InputPart part_;
    NpyFile file_;
    bool widened_ = false;  // float16 to float32
};

class NpyFolder final : public BatchSource {
  public:
    explicit NpyFolder(const SourceOptions& options)
        : folder_(options.input->input), row_bytes_(options.model_input.row_bytes()) {
        check_folder(options);
        for (const InputPart& part : options.parts) files_.emplace_back(folder_, part, options.model->model);
        const NpyFile& first = files_.front().file();
        for (const PartFile& other : files_)
            if (other.file().rows() != first.rows())
                other.file().refuse("it has " + std::to_string(other.file().rows()) + " rows, and '" +
                                        printable(first.path()) + "' has " + std::to_string(first.rows()),
                                    "Row i of each file belongs to item i: give them equally many rows");
        description_ = "npy: " + std::to_string(items()) + " rows of " + names_ + " in " + printable(folder_);
    }

    std::string description() const override { return description_; }
    std::uint64_t items() const override { return files_.front().file().rows(); }
    RowKind row_kind() const override { return RowKind::Arrays; }
    std::string_view key(std::uint64_t) const override { return {}; }
    std::size_t max_key_bytes() const override { return 0; }
    std::string origin(std::uint64_t item) const override {
        return printable(folder_) + " row " + std::to_string(item);
    }

    // Covers all the files.
    std::uint64_t note_hash(std::uint64_t item) const override {
        std::uint64_t hash = 0;
        for (const PartFile& file : files_) {
            const std::uint64_t note = file.file().note_hash(item);
            hash = XXH3_64bits_withSeed(&note, sizeof note, hash);
        }
        return hash;
    }

    void load(std::uint64_t item, std::span<std::byte> row) override {
        expect(row.size() == row_bytes_, "the row holds exactly the parts");
        for (const PartFile& file : files_) file.load(item, row);
    }

  private:
    void check_folder(const SourceOptions& options) {
        std::string missing;
        for (const InputPart& part : options.parts) {
            const std::string name = part.tensor.name + ".npy";
            names_ += (names_.empty() ? "" : ", ") + name;
            std::error_code ignored;
            if (!std::filesystem::exists(std::filesystem::path(folder_) / name, ignored))
                missing += (missing.empty() ? "" : ", ") + name;
        }
        std::error_code ignored;
        const bool folder = std::filesystem::is_directory(folder_, ignored);
        if (!folder || !missing.empty())
            throw ConfigError("--input '" + printable(folder_) + "' " +
                                  (folder ? "has no " + missing : std::string("is not a folder")),
                              "The model '" + options.model->model + "' takes its arrays from a folder with " + names_,
                              ErrorKind::NoInput);
    }

    std::string folder_;
    std::size_t row_bytes_;
    std::string names_;
    std::deque<PartFile> files_;  // at stable addresses
    std::string description_;
};

}  // namespace

std::unique_ptr<BatchSource> make_npy_folder(const SourceOptions& options) {
    expect(!options.parts.empty(), "a folder of arrays is for a model that takes arrays");
    return std::make_unique<NpyFolder>(options);
}

}  // namespace offramp
