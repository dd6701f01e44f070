#include "common/app/settings/exit_code.hpp"

namespace offramp {

const char* flag_remedy(Remedy which) noexcept {
    switch (which) {
        case Remedy::RunOnCpu:
            return "Run on the CPU with --device cpu";
        case Remedy::SmallerBatches:
            return "Use a smaller --batch or --image-size";
        case Remedy::SmallerHostBuffers:
            return "Use a smaller --batch or --prefetch";
        case Remedy::PageLocking:
            return "Run offramp doctor, and check the memory limit of the cgroup (memory.max); confidential-computing "
                   "machines forbid it. Without page-locking copies run at a quarter of the speed: --allow-unpinned "
                   "accepts that";
        case Remedy::FewerSlabs:
            return "use fewer or smaller slabs (--slabs, --samples-per-slab, --batch)";
        case Remedy::AnotherSpillFolder:
            return "give the run another --spill-dir";
        case Remedy::AnotherRunDirectory:
            return "give the run another --run-dir";
        case Remedy::SweepMemory:
            return "`offramp-producer sweep` removes what dead runs left";
        case Remedy::OpenToAnotherUser:
            return "Start the run with --consumer-user";
        case Remedy::OneProducer:
            return "Stop it (offramp stop), or give this run another --run-dir";
        case Remedy::BeginRun:
            return "Start a producer without the command recover, or check --run-dir";
        case Remedy::RunAgain:
            return "Run again with --resume";
        case Remedy::LessMemory:
            return "use less: a smaller --batch, fewer --slabs or --decode-workers";
        case Remedy::AnotherLogFile:
            return "Check --log-file";
        case Remedy::WritableOutput:
            return "Give --output a folder that this user may write to";
        case Remedy::AnotherOutput:
            return "give another --output";
        case Remedy::Count:
            break;
    }
    return "";
}

}  // namespace offramp
