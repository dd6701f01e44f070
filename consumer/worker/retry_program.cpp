#include "consumer/worker/retry_program.hpp"

#include <spdlog/spdlog.h>

#include "common/dead_letters/payload_file.hpp"
#include "common/settings/exit_code.hpp"

namespace offramp {

int retry_payload(const std::string& path, SlabProcessor& processor) {
    const PayloadFile payload(path);
    const SlabContents& slab = payload.slab();
    spdlog::info("processing {} again: {} samples, from batch {}", path, slab.samples.size(),
                 slab.batches.empty() ? 0 : slab.batches.front().batch);
    processor.process(
        slab, [] {}, [] { return true; });
    return to_int(ExitCode::Ok);
}

}  // namespace offramp
