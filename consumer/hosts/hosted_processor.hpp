#pragma once

#include <cstdint>
#include <exception>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <offramp_processor.h>
#include "common/base/files.hpp"
#include "consumer/processors/processor.hpp"
#include "consumer/session/slab_for_c.hpp"
#include "consumer/sinks/segments/segment_file.hpp"

namespace offramp {

// The inputs for making a custom processor.
struct HostedOptions {
    std::string name;           // as --processor has it
    std::string output;         // the folder for files of single samples; empty: none
    std::string shared_output;  // for the records of all consumers
    Durability durability = Durability::Process;
    std::vector<std::pair<std::string, std::string>> options;
};

// Runs a custom processor, and commits its results through Offramp's sinks: so delivered twice, it leaves the same.
//
// Owns: the processor that `code` made. Borrows: `code`, which outlives it. Thread: one. Errors: of the constructor,
// ConfigError or the kind and text of the code; of process(), SlabFailed with its text, SinkUnavailable where it asked
// to try again, and what a sink throws.
class HostedProcessor final : public Processor {
  public:
    HostedProcessor(const offramp_processor& code, HostedOptions options)
        : HostedProcessor(code, std::move(options), false) {}
    HostedProcessor(const HostedProcessor&) = delete;
    HostedProcessor& operator=(const HostedProcessor&) = delete;
    ~HostedProcessor() override;
    // Before a run: whether it could be made. Errors: ConfigError.
    static void check(const offramp_processor& code, HostedOptions options);

    void process(const SlabContents& slab, const Progress& progress, const StillCurrent& still_current) override;
    // The files that the last process() left.
    std::vector<std::string> files_of(const SlabContents& slab, const SampleView& sample) const override;

  private:
    // The argument of the code: this object behind a C struct.
    struct Host : offramp_host {
        HostedProcessor* processor = nullptr;
    };
    static HostedProcessor& of(const offramp_host* host) { return *static_cast<const Host*>(host)->processor; }
    template <class Work>
    std::int32_t in_c(Work&& work) noexcept;

    HostedProcessor(const offramp_processor& code, HostedOptions options, bool only_check);
    void create();
    const SampleView& sample(std::uint32_t index) const;
    void commit_file(std::uint32_t index, std::string_view ending, std::span<const std::byte> bytes);
    void take_record(std::uint32_t index, std::string_view json);
    void commit_records(const SlabContents& slab);
    std::string why_or(const char* otherwise) const { return why_.empty() ? otherwise : why_; }

    const offramp_processor& code_;
    const HostedOptions options_;
    const bool only_check_;
    Host host_;
    void* self_ = nullptr;
    SlabForC slab_for_c_;
    SegmentFile segment_;
    // While a slab is processed.
    const SlabContents* slab_ = nullptr;
    const Progress* progress_ = nullptr;
    const StillCurrent* still_current_ = nullptr;
    std::string why_;  // explained
    std::string bad_commit_;
    std::exception_ptr problem_;                                         // of a sink
    std::map<std::uint32_t, std::vector<std::string>> records_, files_;  // by the sample's index
    // All these files by key: those of a later sample with the same key replace the earlier ones.
    std::set<std::pair<std::uint32_t, std::string>> names_;
};

}  // namespace offramp
