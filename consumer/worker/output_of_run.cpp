#include "consumer/worker/output_of_run.hpp"

#include <filesystem>
#include <system_error>

#include "common/app/settings/processor_spec.hpp"
#include "consumer/sinks/files/atomic_file.hpp"

namespace offramp {
namespace {

class InPlace final : public SlabProcessor {
  public:
    InPlace(SlabProcessor& processor, HeldOutput& output) : processor_(processor), output_(output) {}

    void process(const SlabContents& slab, const Progress& progress, const StillCurrent& still_current) override {
        output_.require_in_place();
        processor_.process(slab, progress, still_current);
        output_.require_in_place();
    }

  private:
    SlabProcessor& processor_;
    HeldOutput& output_;
};

void hold_if_there(HeldOutput& output, const std::string& folder, const std::string& what) {
    std::error_code unknown;
    if (std::filesystem::is_directory(folder, unknown)) output.hold(folder, what);
}

}  // namespace

OutputOfRun::OutputOfRun(const RunConfig& config, const std::string& run_id) {
    if (config.output.empty()) return;
    const bool is_launched = config.lifeline_fd >= 0;
    std::error_code unknown;
    if (!is_launched)
        make_folder_of_results(config.output);
    else if (!std::filesystem::exists(config.output, unknown))
        fail_moved("the output folder", config.output, "it is not there");
    const HeldFolder& output = held_.hold(config.output, "the output folder");
    share_.emplace(output, run_id, is_launched ? OutputShare::Lock::Required : OutputShare::Lock::Optional);
    if (!config.samples_folder.empty()) held_.hold(config.samples_folder, "the output folder");
}

// Folders that processors make for themselves are there once these are made.
SlabProcessor& OutputOfRun::guard(SlabProcessor& processor, const RunConfig& config) {
    if (config.has_processor("write"))
        hold_if_there(held_, config.catalogue.text("write-path"), "the folder of --write-path,");
    guarded_ = std::make_unique<InPlace>(processor, held_);
    return *guarded_;
}

std::optional<OutputShare> share_in_output(const RunConfig& config) {
    std::error_code unknown;
    if (!std::filesystem::is_directory(config.output, unknown)) return std::nullopt;
    return OutputShare(HeldFolder(config.output), config.run_id, OutputShare::Lock::Optional);
}

}  // namespace offramp
