#include "common/base/remedy.hpp"

#include <atomic>
#include <string>

namespace offramp {
namespace {

std::atomic<RemedyText> text_of_process{library_remedy};

}  // namespace

std::string remedy(Remedy which) { return text_of_process.load()(which); }

void put_remedies(RemedyText text_of) noexcept { text_of_process = text_of; }

const char* library_remedy(Remedy which) noexcept {
    switch (which) {
        case Remedy::RunOnCpu:
            return "Run on the CPU (device \"cpu\")";
        case Remedy::SmallerBatches:
        case Remedy::SmallerHostBuffers:
            return "Use smaller batches";
        case Remedy::PageLocking:
            return "Check the memory limit of the cgroup (memory.max); confidential-computing machines forbid it";
        case Remedy::FewerSlabs:
            return "use fewer or smaller slabs";
        case Remedy::AnotherSpillFolder:
            return "spill to another folder";
        case Remedy::AnotherRunDirectory:
            return "give the run another directory";
        case Remedy::SweepMemory:
            return "the next run that begins removes what dead runs left";
        case Remedy::OpenToAnotherUser:
            return "Read the run as the user that it belongs to";
        case Remedy::OneProducer:
            return "Stop it, or give this run another directory";
        case Remedy::BeginRun:
            return "Begin a run there, or check the path";
        case Remedy::RunAgain:
            return "Start the run again";
        case Remedy::LessMemory:
            return "use less: smaller batches, or fewer slabs";
        case Remedy::AnotherLogFile:
            return "Log to another file";
        case Remedy::WritableOutput:
            return "Write results to a folder that this user may write to";
        case Remedy::AnotherOutput:
            return "write to another folder";
        case Remedy::Count:
            break;
    }
    return "";
}

std::string command_to_convert(const std::string& file) {
    return "python3 -c \"import torch, safetensors.torch as s; s.save_file({k: v.contiguous() for k, v in "
           "torch.load('" +
           file + "', map_location='cpu').items()}, 'weights.safetensors')\"";
}

}  // namespace offramp
