#include "consumer/hosts/hosted_processor.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "common/abi/guarded.hpp"
#include "common/base/error.hpp"
#include "common/json/json_text.hpp"
#include "consumer/processors/results/run_output.hpp"
#include "consumer/sinks/files/atomic_file.hpp"
#include "consumer/sinks/files/output_name.hpp"

namespace offramp {
namespace {

// An invalid commit is the custom code's error, and counts against the slab.
struct BadCommit : ConfigError {
    using ConfigError::ConfigError;
};

}  // namespace

HostedProcessor::HostedProcessor(const offramp_processor& code, HostedOptions options, bool only_check)
    : code_(code),
      options_(std::move(options)),
      only_check_(only_check),
      segment_(options_.shared_output, kOthersRecords, options_.durability) {
    host_.size = sizeof(offramp_host);
    host_.processor = this;
    host_.progress = [](const offramp_host* host) {
        if (const Progress* progress = of(host).progress_) (*progress)();
    };
    host_.still_current = [](const offramp_host* host) -> std::int32_t {
        const StillCurrent* current = of(host).still_current_;
        return current != nullptr && (*current)() ? 1 : 0;
    };
    host_.commit_file = [](const offramp_host* host, std::uint32_t index, const char* ending, const void* bytes,
                           std::size_t count) {
        return of(host).in_c([&] {
            of(host).commit_file(index, ending == nullptr ? "" : ending,
                                 {static_cast<const std::byte*>(bytes), bytes == nullptr ? 0 : count});
        });
    };
    host_.commit_record = [](const offramp_host* host, std::uint32_t index, const char* json, std::size_t count) {
        return of(host).in_c(
            [&] { of(host).take_record(index, json == nullptr ? std::string_view() : std::string_view(json, count)); });
    };
    host_.explain = [](const offramp_host* host, const char* why) { of(host).why_ = why == nullptr ? "" : why; };
    create();
}

HostedProcessor::~HostedProcessor() {
    if (code_.destroy != nullptr && !only_check_) code_.destroy(self_);
}

void HostedProcessor::check(const offramp_processor& code, HostedOptions options) {
    const HostedProcessor made(code, std::move(options), true);
}

// Offramp's exceptions must not cross custom code: they are stored until it has returned.
template <class Work>
std::int32_t HostedProcessor::in_c(Work&& work) noexcept {
    try {
        work();
        return OFFRAMP_OK;
    } catch (const BadCommit& problem) {
        if (bad_commit_.empty()) bad_commit_ = problem.what();
        return OFFRAMP_BAD_ARGUMENT;
    } catch (const Error& problem) {
        if (!problem_) problem_ = std::current_exception();
        return abi::code_of(problem.kind());
    } catch (...) {
        if (!problem_) problem_ = std::current_exception();
        return OFFRAMP_INTERNAL;
    }
}

void HostedProcessor::create() {
    std::vector<const char*> keys, values;
    for (const auto& [key, value] : options_.options) {
        keys.push_back(key.c_str());
        values.push_back(value.c_str());
    }
    const offramp_processor_options given{.size = sizeof given,
                                          .name = options_.name.c_str(),
                                          .output = options_.output.c_str(),
                                          .option_count = static_cast<std::uint32_t>(keys.size()),
                                          .only_check = only_check_ ? 1U : 0U,
                                          .keys = keys.data(),
                                          .values = values.data()};
    const std::int32_t code = code_.create(&host_, &given, &self_);
    if (code == OFFRAMP_OK) return;
    const std::string text = "--processor " + options_.name + ": " + why_or("it did not start");
    if (code == OFFRAMP_RETRY) throw Error(ErrorKind::SinkUnavailable, text);
    throw ConfigError(text,
                      options_.options.empty() ? "Fix the processor" : "Fix the processor, or its --processor-option");
}

void HostedProcessor::process(const SlabContents& slab, const Progress& progress, const StillCurrent& still_current) {
    require_takes(slab);
    why_.clear();
    bad_commit_.clear();
    problem_ = nullptr;
    records_.clear();
    files_.clear();
    names_.clear();
    slab_ = &slab;
    progress_ = &progress;
    still_current_ = &still_current;
    const struct AtWork {
        HostedProcessor& of;
        ~AtWork() { of.slab_ = nullptr, of.progress_ = nullptr, of.still_current_ = nullptr; }
    } at_its_end{*this};
    const std::int32_t code = code_.process(self_, &host_, &slab_for_c_.of(slab));
    if (problem_) std::rethrow_exception(std::exchange(problem_, nullptr));
    if (!bad_commit_.empty()) throw SlabFailed(bad_commit_);
    switch (code) {
        case OFFRAMP_OK:
            break;
        case OFFRAMP_RETRY:
            throw Error(ErrorKind::SinkUnavailable, "--processor " + options_.name + ": " + why_or("try again later"));
        case OFFRAMP_REJECTED:
            throw SlabFailed::rejected(why_or("the processor rejected it"));
        default:
            throw SlabFailed(why_or("the processor failed"));
    }
    commit_records(slab);
}

void HostedProcessor::require_takes(const SlabContents& slab) const {
    constexpr std::size_t kEnd =
        offsetof(offramp_processor, takes_variable) + sizeof(offramp_processor::takes_variable);
    const bool takes_variable = options_.takes_variable != nullptr ? options_.takes_variable(self_)
                                                                   : code_.size >= kEnd && code_.takes_variable != 0;
    for (const TensorView& tensor : slab.tensors)
        if (tensor.spec.varies() && !takes_variable)
            throw ConfigError("--processor " + options_.name +
                                  " does not take samples of different shapes: " + describe_output(tensor.spec),
                              "If it reads each sample's shape, set takes_variable (launch/guide/processors.md)");
}

std::vector<std::string> HostedProcessor::files_of(const SlabContents& slab, const SampleView& sample) const {
    const auto index = static_cast<std::uint32_t>(&sample - slab.samples.data());
    const auto files = files_.find(index);
    return files == files_.end() ? std::vector<std::string>() : files->second;
}

const SampleView& HostedProcessor::sample(std::uint32_t index) const {
    if (slab_ == nullptr) throw BadCommit("nothing can be committed outside of `process`", "Commit before it returns");
    if (index >= slab_->samples.size())
        throw BadCommit("the slab has no sample " + std::to_string(index),
                        "It has " + std::to_string(slab_->samples.size()) + ", counted from 0");
    if (slab_->samples[index].empty)
        throw BadCommit("sample " + std::to_string(index) + " could not be read, and has no result",
                        "Leave out samples whose `empty` is 1");
    if (options_.output.empty())
        throw ConfigError("--processor " + options_.name + " commits results, but the run has no --output",
                          "Give the folder for them");
    return slab_->samples[index];
}

void HostedProcessor::commit_file(std::uint32_t index, std::string_view ending, std::span<const std::byte> bytes) {
    const SampleView& of = sample(index);
    if (ending.size() < 2 || ending.front() != '.' || ending.find('/') != std::string_view::npos)
        throw BadCommit("a file of sample '" + of.key + "' ends with '" + std::string(ending) + "'",
                        "Give an ending that begins with a dot and has no slash, such as .png");
    std::string name = sample_name(of.key, ending);
    if (kOthersRecordsFile == name)
        throw BadCommit("a file of sample '" + of.key + "' would be " + std::string(kOthersRecordsFile),
                        "That is the records' file: give another ending");
    if (names_.contains({index, name}))
        throw BadCommit(
            "the file " + name + " of sample '" + of.key + "' was committed twice, which would replace the first",
            "Give each result of a sample its own ending, such as .scores.npy, or make one file of them");
    const std::string path = sample_path(options_.output, of.key, ending);
    (*progress_)();
    if (!(*still_current_)()) return;  // another consumer does the work
    write_atomically(path, bytes, options_.durability);
    names_.emplace(index, name);
    files_[index].push_back(std::move(name));
}

void HostedProcessor::take_record(std::uint32_t index, std::string_view text) {
    const SampleView& of = sample(index);
    const nlohmann::json record = parse_json_or_discard(text);
    if (!record.is_object())
        throw BadCommit("a record of sample '" + of.key + "' is not a JSON object: " + std::string(text.substr(0, 80)),
                        "Give one, in UTF-8");
    for (const char* const ours : {"item", "key"})
        if (record.contains(ours))
            throw BadCommit("a record of sample '" + of.key + "' has a field '" + ours + "'",
                            "Leave it out: it is added, with the sample's own");
    const std::string members = json_text(record);
    records_[index].push_back("\"key\":" + json_text(nlohmann::json(of.key)) + (record.empty() ? "" : ",") +
                              members.substr(1, members.size() - 2));
}

void HostedProcessor::commit_records(const SlabContents& slab) {
    if (records_.empty() || !(*still_current_)()) return;
    segment_.begin(slab.batches.empty() ? 0 : slab.batches.front().batch,
                   slab.batches.empty() ? 0 : slab.batches.front().first_row);
    for (const auto& [index, lines] : records_)
        for (const std::string& line : lines) segment_.add_json(slab.samples[index].item, line);
    segment_.commit();
}

}  // namespace offramp
