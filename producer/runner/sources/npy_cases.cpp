#include "producer/runner/sources/npy_cases.hpp"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "common/app/images/item_keys.hpp"
#include "common/app/images/unreadable_item.hpp"
#include "common/base/error.hpp"
#include "producer/runner/sources/npy_file.hpp"
#include "producer/runner/sources/npy_rows.hpp"

namespace offramp {
namespace {

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

class NpyCases final : public BatchSource {
  public:
    explicit NpyCases(const SourceOptions& options)
        : folder_(options.input->input),
          input_(options.model_input),
          model_(options.model->model),
          takes_images_(options.model_takes_images),
          names_(arrays_in(folder_)) {
        if (names_.empty())
            throw ConfigError("--input '" + printable(folder_) + "': no .npy file in this folder",
                              "Give a .npy file, or a folder that has an array for each item", ErrorKind::NoInput);
        std::vector<std::string> stems;
        for (const std::string& name : names_) stems.push_back(name.substr(0, name.size() - kEnding.size()));
        keys_ = make_item_keys(stems, NamesAre::Ids);
        for (const std::string& key : keys_) max_key_bytes_ = std::max(max_key_bytes_, key.size());
        NpyFile first(path_of(0), NpyFile::Items::Whole);
        first_ = layout_of(first);
        first.settle(first_.from_bytes());
        description_ =
            "npy: " + std::to_string(items()) + " arrays as " + first.describe() + " in " + printable(folder_);
    }

    std::string description() const override { return description_; }
    std::uint64_t items() const override { return names_.size(); }
    RowKind row_kind() const override { return first_.to; }
    std::string_view key(std::uint64_t item) const override { return keys_[item]; }
    std::size_t max_key_bytes() const override { return max_key_bytes_; }
    bool has_notes() const override { return false; }
    std::string origin(std::uint64_t item) const override { return printable(path_of(item)); }
    std::string file(std::uint64_t item) const override { return path_of(item); }

    void load(std::uint64_t item, std::span<std::byte> row) override try {
        NpyFile array(path_of(item), NpyFile::Items::Whole);
        const NpyRowLayout layout = layout_of(array);
        if (layout.to != first_.to)
            throw UnreadableItem("its elements are " + printable(array.header().descr) + ", not those of " +
                                 printable(names_.front()) + " (the first array)");
        array.settle(layout.from_bytes());
        stage_row(array, 0, layout, row);
    } catch (const ConfigError& problem) {
        throw UnreadableItem(problem.what());
    }

  private:
    std::string path_of(std::uint64_t item) const { return (std::filesystem::path(folder_) / names_[item]).string(); }
    NpyRowLayout layout_of(const NpyFile& array) const {
        return NpyRowLayout::of(array, input_, model_, takes_images_);
    }

    std::string folder_;
    TensorSpec input_;
    std::string model_;
    bool takes_images_;
    std::vector<std::string> names_;
    std::vector<std::string> keys_;
    std::size_t max_key_bytes_ = 0;
    NpyRowLayout first_;
    std::string description_;
};

}  // namespace

std::vector<std::string> arrays_in(const std::string& folder) {
    std::vector<std::string> names = names_in(folder);
    std::erase_if(names, [](const std::string& name) { return !is_array(name); });
    std::ranges::sort(names);
    return names;
}

bool has_arrays_alone(const std::string& input) {
    const std::vector<std::string> names = names_in(input);
    return std::ranges::any_of(names, is_array) && std::ranges::none_of(names, has_image_extension);
}

std::unique_ptr<BatchSource> make_npy_cases(const SourceOptions& options) {
    return std::make_unique<NpyCases>(options);
}

}  // namespace offramp
