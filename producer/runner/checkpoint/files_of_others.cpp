#include "producer/runner/checkpoint/files_of_others.hpp"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "common/app/images/item_keys.hpp"
#include "common/app/settings/processor_results.hpp"
#include "common/app/settings/processor_spec.hpp"
#include "common/base/error.hpp"
#include "common/wire/mask_form.hpp"
#include "producer/runner/checkpoint/checkpoint_file.hpp"
#include "producer/runner/checkpoint/files_of_run.hpp"
#include "producer/runner/checkpoint/replaced_items.hpp"
#include "producer/runner/sources/source_fingerprint.hpp"

namespace offramp {
namespace {

namespace fs = std::filesystem;

std::string chosen(const std::string& processor, std::span<const TensorSpec> outputs, std::uint32_t upsample_factor) {
    if (processor != "auto") return processor;
    const auto becomes_masks = [&](const TensorSpec& output) {
        return obstacle_to_masks(output, upsample_factor).empty();
    };
    return std::ranges::any_of(outputs, becomes_masks) ? "mask-png" : "npy";
}

// The suffixes after an item's key in the names of its files. With several matching outputs, the suffix contains the
// output's name.
std::vector<std::string> suffixes_of(const ProcessorResults& results, const CatalogueValues& catalogue,
                                     std::span<const TensorSpec> outputs) {
    const std::string& ending = results.ending(catalogue);
    std::vector<std::string> suffixes;
    if (results.names != FileNames::KeyAndOutput) suffixes.push_back(ending);
    if (results.names != FileNames::Key)
        for (const TensorSpec& output : outputs) suffixes.push_back("." + output.name + ending);
    return suffixes;
}

// The files below a folder with one ending. Reads each subfolder on first use.
class FilesThere {
  public:
    FilesThere(std::string folder, std::string_view ending) : folder_(std::move(folder)), ending_(ending) {}

    // `subfolder`: "" or "a/b/".
    const std::unordered_set<std::string>& in(std::string_view subfolder) {
        const auto [found, added] = read_.try_emplace(std::string(subfolder));
        if (!added) return found->second;
        std::error_code problem;
        for (fs::directory_iterator entry(folder_ + "/" + found->first, problem);
             !problem && entry != fs::directory_iterator(); entry.increment(problem))
            if (std::string name = entry->path().filename().string(); name.ends_with(ending_))
                found->second.insert(std::move(name));
        return found->second;
    }

  private:
    const std::string folder_;
    const std::string_view ending_;
    std::unordered_map<std::string, std::unordered_set<std::string>> read_;
};

bool is_in(ItemRange share, std::uint64_t item) { return share.begin <= item && item < share.end; }

// Files in the folder that earlier Offramp runs made.
class OwnResults {
  public:
    OwnResults(const ResultSettings& config, const std::string& write_path, const BatchSource& source)
        : source_(source), resumes_(config.resume) {
        try {
            previous_ = read_checkpoint(config.output + "/" + kCheckpointName);
        } catch (const Error&) {
            return;  // its contents are unknown
        }
        if (!previous_) return;
        put(previous_->names, names_);
        put(previous_->results, results_);
        processors_ = FilesOfRun::of(previous_->identity).output_paths(config, write_path);
        for (auto& [files, items] : ReplacedItems::by_files(config.output, previous_->seal))
            replaced_.push_back(
                {.of_any = !files,
                 .processors = files ? files->output_paths(config, write_path) : std::vector<std::string>(),
                 .items = items});
    }

    bool has(const std::string& processor, std::uint64_t item) {
        if (!previous_) return false;
        if (was_there(item) && std::ranges::find(processors_, processor) != processors_.end()) return true;
        return !replaced_.empty() && std::ranges::any_of(replaced_, [&, result = hash_of_replaced_name(source_, item)](
                                                                        const Replaced& replaced) {
            return (replaced.of_any ||
                    std::ranges::find(replaced.processors, processor) != replaced.processors.end()) &&
                   replaced.items.contains(result);
        });
    }

  private:
    // Files of runs that recorded no completed items.
    struct Replaced {
        bool of_any;  // the run's processors are unknown
        std::vector<std::string> processors;
        ReplacedItems::Hashes items;
    };

    // `hashes`: of all items of that run's input, or none.
    void put(const std::vector<std::uint64_t>& hashes, std::unordered_set<std::uint64_t>& made) const {
        const ItemRange share = previous_->share();
        for (std::uint64_t item = share.begin; item < std::min<std::uint64_t>(share.end, hashes.size()); ++item)
            made.insert(hashes[item]);
    }

    // True for an item that the earlier run processed. Without recorded names, items are compared by number: only if
    // this source's items have no names either, or with --resume.
    bool was_there(std::uint64_t item) {
        if (names_.empty()) return resumes_ || (source_.max_key_bytes() == 0 && is_in(previous_->share(), item));
        const std::uint64_t result = hash_of_result_name(source_.key(item), item);
        if (!results_.empty()) return results_.contains(result);
        if (items_.empty()) items_ = hashes_of_items(source_);
        return names_.contains(result) || (!items_.empty() && names_.contains(items_[item]));
    }

    const BatchSource& source_;
    const bool resumes_;
    std::optional<Checkpoint> previous_;
    std::vector<std::string> processors_;
    // results_: empty if it equals names_, or was not recorded
    std::unordered_set<std::uint64_t> names_, results_;
    std::vector<Replaced> replaced_;
    std::vector<std::uint64_t> items_;  // of the source, computed on first use
};

// "12" of "12.scores.npy", whose suffix is ".scores.npy".
std::optional<std::uint64_t> number_before(std::string_view suffix, std::string_view file) {
    if (!file.ends_with(suffix)) return std::nullopt;
    const std::string_view digits = file.substr(0, file.size() - suffix.size());
    std::uint64_t number = 0;
    const auto [end, problem] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
    if (problem != std::errc() || end != digits.data() + digits.size() || std::to_string(number) != digits)
        return std::nullopt;
    return number;
}

// Files whose names begin like an item's results, with any ending: for a processor whose endings are unknown before it
// runs.
void for_each_file_of_items(
    const std::string& folder, const BatchSource& source, ItemRange share,
    const std::function<void(std::uint64_t item, const std::string& key, const std::string& suffix)>& found) {
    FilesThere there(folder, "");
    if (source.max_key_bytes() == 0) {  // numbered, with any count
        for (const std::string& file : there.in(""))
            if (const std::size_t dot = file.find('.'); dot != std::string::npos)
                if (const auto item = number_before(file.substr(dot), file); item && is_in(share, *item))
                    found(*item, std::to_string(*item), file.substr(dot));
        return;
    }
    std::unordered_map<std::string, std::unordered_map<std::string, std::string>> begun;  // by subfolder and beginning
    for (std::uint64_t item = share.begin; item < share.end; ++item) {
        const std::string key(source.key(item));
        const std::string subfolder = key.substr(0, key.rfind('/') + 1);
        const auto [of_folder, added] = begun.try_emplace(subfolder);
        if (added)
            for (const std::string& file : there.in(subfolder))
                for (std::size_t dot = file.find('.'); dot != std::string::npos; dot = file.find('.', dot + 1))
                    of_folder->second.emplace(file.substr(0, dot), file.substr(dot));
        const auto file = of_folder->second.find(key.substr(subfolder.size()));
        if (file != of_folder->second.end()) found(item, key, file->second);
    }
}

[[noreturn]] void refuse(const std::string& place, const std::string& file, const std::string& key,
                         const std::string& processor) {
    throw ConfigError(place + ": " + printable(file) +
                          " exists, but no checkpoint of these items lists it: the result of " + processor +
                          " for the item '" + printable(key) + "' would replace it",
                      "Give " + place + " another folder, move the file away, or replace it with --overwrite");
}

}  // namespace

void require_no_files_of_others(const ResultSettings& config, const CatalogueValues& catalogue,
                                const BatchSource& source, ItemRange share, std::span<const TensorSpec> outputs,
                                std::uint32_t upsample_factor) {
    // A job's shards share a folder, which was empty when the job began.
    if (config.output.empty() || config.overwrite || !config.samples_folder.empty()) return;
    const std::vector<std::string> processors = config.processors();
    const std::string& write_path = catalogue.text("write-path");
    std::optional<OwnResults> own;
    for (const std::string& processor : processors) {
        const auto refuse_others_of = [&](const std::string& place, const std::string& folder) {
            return [&, place, folder](std::uint64_t item, const std::string& key, const std::string& suffix) {
                if (!own) own.emplace(config, write_path, source);
                if (!own->has(processor, item)) refuse(place, folder + "/" + key + suffix, key, processor);
            };
        };
        if (ProcessorSpec::of(processor)) {
            const std::string folder = results_folder(config.output, processor, processors.size());
            for_each_file_of_items(folder, source, share, refuse_others_of("--output", folder));
            continue;
        }
        const ProcessorResults* const results = ProcessorResults::of(chosen(processor, outputs, upsample_factor));
        if (results == nullptr || !makes_files_of_items(results->processor, write_path)) continue;
        const bool in_write_path = results->place == ResultPlace::WritePath;
        const std::string folder =
            in_write_path ? write_path : results_folder(config.output, processor, processors.size());
        const std::vector<std::string> suffixes = suffixes_of(*results, catalogue, outputs);
        FilesThere there(folder, std::string_view(suffixes.front()).substr(suffixes.front().rfind('.')));
        const auto refuse_others = refuse_others_of(in_write_path ? "--write-path" : "--output", folder);
        if (source.max_key_bytes() == 0) {  // numbered, with any count
            for (const std::string& file : there.in(""))
                for (const std::string& suffix : suffixes)
                    if (const auto item = number_before(suffix, file); item && is_in(share, *item))
                        refuse_others(*item, std::to_string(*item), suffix);
            continue;
        }
        for (std::uint64_t item = share.begin; item < share.end; ++item) {
            const std::string_view name = results->puts_tiles_together ? source.key_of_whole(item) : source.key(item);
            const std::string key = name.empty() ? std::to_string(item) : std::string(name);
            const std::size_t name_at = key.rfind('/') + 1;  // 0 where there is none
            const auto& files = there.in(std::string_view(key).substr(0, name_at));
            if (files.empty()) continue;
            for (const std::string& suffix : suffixes)
                if (files.contains(key.substr(name_at) + suffix)) refuse_others(item, key, suffix);
        }
    }
}

}  // namespace offramp
