#include "producer/runner/sources/npy_folder.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <deque>
#include <exception>
#include <filesystem>
#include <map>
#include <optional>
#include <system_error>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "common/app/images/item_keys.hpp"
#include "common/app/images/unreadable_item.hpp"
#include "common/base/error.hpp"
#include "common/numerics/float16_bits.hpp"
#include "common/wire/shape_text.hpp"
#include "common/wire/tensor_spec.hpp"
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

constexpr std::string_view kEnding = ".npy";

std::vector<std::string> names_in(const std::string& folder) {
    std::vector<std::string> names;
    std::error_code problem;
    for (std::filesystem::directory_iterator entry(folder, problem);
         !problem && entry != std::filesystem::directory_iterator(); entry.increment(problem))
        names.push_back(entry->path().filename().string());
    return names;
}

bool is_array(const std::string& name) {
    return name.size() > kEnding.size() && name.ends_with(kEnding) && !name.starts_with('.');
}

// An array that may be a sample in its own shape.
struct FoundArray {
    ItemShapes::Shape shape;
    bool has_pixels = false;  // 8-bit, of three channels
    std::string text;
};

// Errors: ConfigError, UnreadableItem: no model takes the array, or the file has less than its header claims.
FoundArray found_array(NpyFile& file) {
    const NpyRowLayout::Element element = NpyRowLayout::element_of(file);
    FoundArray array{.shape = {file.row_shape().begin(), file.row_shape().end()}, .text = file.describe()};
    if (array.shape.empty() || array.shape.size() >= kMaxDims)
        throw UnreadableItem("an array " + array.text + " has " + std::to_string(array.shape.size()) +
                             " dimensions; a sample has 1 to " + std::to_string(kMaxDims - 1));
    ItemShapes::require_size(array.shape);
    file.settle(NpyRowLayout::bytes_of(element));
    array.has_pixels = element == NpyRowLayout::Element::UInt8 && array.shape.size() == 3 &&
                       (array.shape[2] == 3 || array.shape[0] == 3);
    return array;
}

// The form that most arrays have; the first one's if there are equally many. `are_pictures`: of any type.
SampleForm form_of_most(std::span<const FoundArray> arrays, bool are_pictures) {
    std::map<std::size_t, std::uint64_t> votes;  // by the number of dimensions; 0: pixels
    const auto kind_of = [](const FoundArray& array) { return array.has_pixels ? 0 : array.shape.size(); };
    for (const FoundArray& array : arrays)
        if (!array.shape.empty()) ++votes[kind_of(array)];
    std::optional<std::size_t> found;
    for (const FoundArray& array : arrays)
        if (!array.shape.empty() && (!found || votes[kind_of(array)] > votes[*found])) found = kind_of(array);
    const std::size_t most = found.value_or(3);
    if (most != 0 && !are_pictures) return {.shape = std::vector<std::int64_t>(most, kVarying)};
    return {.shape = {3, kVarying, kVarying}, .is_picture = true, .has_pixels = most == 0};
}

// The shape as the model takes it. Errors: UnreadableItem.
ItemShapes::Shape taken_shape(const FoundArray& array, const SampleForm& form) {
    ItemShapes::Shape shape = array.shape;
    if (form.has_pixels && array.has_pixels && shape[2] == 3) shape = {3, shape[0], shape[1]};
    const bool fits = (!form.is_picture || array.has_pixels == form.has_pixels) &&
                      std::ranges::equal(form.shape, shape, [](std::int64_t wanted, std::int64_t extent) {
                          return wanted == kVarying || wanted == extent;
                      });
    if (fits) return shape;
    throw UnreadableItem("an array " + array.text + ", and the model takes " + shape_text(form.shape) +
                         (form.has_pixels ? " or [?, ?, 3] of 8 bits" : "") +
                         ". Bring it to that shape, or leave it out");
}

class NpyCases final : public BatchSource {
  public:
    explicit NpyCases(const SourceOptions& options)
        : folder_(options.input->input),
          input_(options.model_input),
          model_(options.model->model),
          takes_images_(options.model_takes_images),
          shapes_(options.shapes),
          names_(shapes_ ? shapes_->files() : arrays_in(folder_)) {
        if (names_.empty())
            throw ConfigError("--input '" + printable(folder_) + "': no .npy file in this folder",
                              "Give a .npy file, or a folder that has an array for each item", ErrorKind::NoInput);
        StringList stems;
        for (const std::string& name : names_) stems.push_back(name.substr(0, name.size() - kEnding.size()));
        keys_ = ItemKeys(std::move(stems), NamesAre::Ids);
        for (std::uint64_t item = 0; item < keys_.size(); ++item)
            max_key_bytes_ = std::max(max_key_bytes_, keys_[item].size());
        if (!shapes_) {
            begin_as(0);
            return;
        }
        std::exception_ptr problem;
        for (std::uint64_t item = 0; item < shapes_->items(); ++item) {
            if (shapes_->of(item).empty()) continue;
            try {
                begin_as(item);
                return;
            } catch (const ConfigError&) {
                if (!problem) problem = std::current_exception();
            } catch (const UnreadableItem&) {
                if (!problem) problem = std::current_exception();
            }
        }
        expect(problem != nullptr, "some item has a shape");
        std::rethrow_exception(problem);
    }

    std::string description() const override { return description_; }
    std::uint64_t items() const override { return names_.size(); }
    RowKind row_kind() const override { return first_.to; }
    std::span<const std::int64_t> shape(std::uint64_t item) const override {
        return shapes_ ? std::span<const std::int64_t>(shapes_->of(item)) : std::span<const std::int64_t>();
    }
    std::string_view key(std::uint64_t item) const override { return keys_[item]; }
    std::size_t max_key_bytes() const override { return max_key_bytes_; }
    bool has_notes() const override { return false; }
    std::string origin(std::uint64_t item) const override { return printable(path_of(item)); }
    std::string file(std::uint64_t item) const override { return path_of(item); }

    void load(std::uint64_t item, std::span<std::byte> row) override try {
        NpyFile array(path_of(item), NpyFile::Items::Whole);
        if (shapes_ && own_shape_of(array) != shapes_->of(item))
            throw UnreadableItem("the array changed after the run began");
        const NpyRowLayout layout = layout_of(array);
        if (layout.to != first_.to)
            throw UnreadableItem("its elements are " + printable(array.header().descr) + ", not those of " +
                                 printable(names_[first_item_]) + " (the first array)");
        array.settle(layout.from_bytes());
        stage_row(array, 0, layout, row);
    } catch (const ConfigError& problem) {
        throw UnreadableItem(problem.what());
    }

  private:
    // Gives all items the type of this one.
    void begin_as(std::uint64_t item) {
        NpyFile first(path_of(item), NpyFile::Items::Whole);
        first_ = layout_of(first);
        first.settle(first_.from_bytes());
        first_item_ = item;
        description_ = "npy: " + std::to_string(items()) + " arrays " +
                       (shapes_ ? first.header().descr + " in shapes of their own" : "as " + first.describe()) +
                       " in " + printable(folder_);
    }
    std::string path_of(std::uint64_t item) const { return (std::filesystem::path(folder_) / names_[item]).string(); }
    ItemShapes::Shape own_shape_of(NpyFile& array) const { return taken_shape(found_array(array), shapes_->form()); }
    NpyRowLayout layout_of(NpyFile& array) const {
        if (!shapes_) return NpyRowLayout::of(array, input_, model_, takes_images_);
        return NpyRowLayout::of(array, in_shape(input_, 1, own_shape_of(array)), model_, takes_images_);
    }

    std::string folder_;
    TensorSpec input_;
    std::string model_;
    bool takes_images_;
    std::shared_ptr<const ItemShapes> shapes_;  // null: all have the first one's shape
    std::vector<std::string> names_;
    ItemKeys keys_;
    std::size_t max_key_bytes_ = 0;
    NpyRowLayout first_;
    std::uint64_t first_item_ = 0;
    std::string description_;
};

}  // namespace

std::unique_ptr<BatchSource> make_npy_folder(const SourceOptions& options) {
    expect(!options.parts.empty(), "a folder of arrays is for a model that takes arrays");
    return std::make_unique<NpyFolder>(options);
}

std::vector<std::string> arrays_in(const std::string& folder) {
    std::vector<std::string> names = names_in(folder);
    std::erase_if(names, [](const std::string& name) { return !is_array(name); });
    std::ranges::sort(names);
    return names;
}

void add_shapes(const std::string& folder, std::uint64_t arrays, std::span<const std::int64_t> declared,
                bool are_pictures, const StillWanted& still_wanted, ItemShapes& shapes) {
    const auto attempt = [](FoundArray& array, const auto& work) {
        try {
            work();
            return;
        } catch (const UnreadableItem& problem) {
            array.text = problem.what();
        } catch (const ConfigError& problem) {
            array.text = problem.what();
        }
        array.shape.clear();
    };
    std::vector<FoundArray> found(arrays);
    for (std::uint64_t item = 0; item < arrays; ++item) {
        if (still_wanted) still_wanted();
        attempt(found[item], [&] {
            NpyFile file((std::filesystem::path(folder) / shapes.files()[item]).string(), NpyFile::Items::Whole);
            found[item] = found_array(file);
        });
    }
    if (shapes.form().shape.empty())
        shapes.set_form(declared.empty() ? form_of_most(found, are_pictures)
                                         : SampleForm{.shape = {declared.begin(), declared.end()}});
    for (std::uint64_t item = 0; item < arrays; ++item) {
        FoundArray& array = found[item];
        if (!array.shape.empty()) attempt(array, [&] { array.shape = taken_shape(array, shapes.form()); });
        if (array.shape.empty())
            shapes.add_unreadable(printable(shapes.files()[item]) + ": " + array.text);
        else
            shapes.add(array.shape);
    }
}

bool has_arrays_alone(const std::string& input) {
    const std::vector<std::string> names = names_in(input);
    return std::ranges::any_of(names, is_array) && std::ranges::none_of(names, has_image_extension);
}

std::unique_ptr<BatchSource> make_npy_cases(const SourceOptions& options) {
    return std::make_unique<NpyCases>(options);
}

}  // namespace offramp
