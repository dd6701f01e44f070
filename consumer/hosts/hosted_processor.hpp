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
    std::string name;           // as given to --processor
    std::string output;         // the folder for files of single samples; empty: none
    std::string shared_output;  // for the records of all consumers
    Durability durability = Durability::Process;
    std::vector<std::pair<std::string, std::string>> options;
    // Whether `self` takes samples of different shapes. Null: its offramp_processor says so.
    bool (*takes_variable)(const void* self) = nullptr;
};

// Runs a custom processor and commits its results through Offramp's sinks, so that a repeated delivery leaves the same
// results.
//
// Owns: the processor that `code` made. Borrows: `code`, which outlives it. Thread: one. Errors: the constructor throws
// ConfigError, or the kind and text that the code reported. process() throws SlabFailed with the code's text,
// SinkUnavailable if the code asked for a retry, or a sink's error.
class HostedProcessor final : public Processor {
  public:
    HostedProcessor(const offramp_processor& code, HostedOptions options)
        : HostedProcessor(code, std::move(options), false) {}
    HostedProcessor(const HostedProcessor&) = delete;
    HostedProcessor& operator=(const HostedProcessor&) = delete;
    ~HostedProcessor() override;
    // Checks before a run that the processor can be made. Errors: ConfigError.
    static void check(const offramp_processor& code, HostedOptions options);

    void process(const SlabContents& slab, const Progress& progress, const StillCurrent& still_current) override;
    // The files that the last process() wrote.
    std::vector<std::string> files_of(const SlabContents& slab, const SampleView& sample) const override;

  private:
    // The host argument of the custom code: a C struct that leads to this object.
    struct Host : offramp_host {
        HostedProcessor* processor = nullptr;
    };
    static HostedProcessor& of(const offramp_host* host) { return *static_cast<const Host*>(host)->processor; }
    template <class Work>
    std::int32_t in_c(Work&& work) noexcept;

    HostedProcessor(const offramp_processor& code, HostedOptions options, bool only_check);
    void create();
    const SampleView& sample(std::uint32_t index) const;
    void require_takes(const SlabContents& slab) const;
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
    // Set while a slab is processed.
    const SlabContents* slab_ = nullptr;
    const Progress* progress_ = nullptr;
    const StillCurrent* still_current_ = nullptr;
    std::string why_;  // the reason that the code reported
    std::string bad_commit_;
    std::exception_ptr problem_;                                         // thrown by a sink
    std::map<std::uint32_t, std::vector<std::string>> records_, files_;  // by sample index
    // All these files by key: the files of a later sample replace those of an earlier one with the same key.
    std::set<std::pair<std::uint32_t, std::string>> names_;
};

}  // namespace offramp
