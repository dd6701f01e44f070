#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "common/app/program/own_process.hpp"
#include "common/app/settings/run_config.hpp"
#include "common/transport/endpoint.hpp"
#include "consumer/session/consumer_loop.hpp"
#include "consumer/session/slab_processor.hpp"

namespace offramp {

// Waits for the run in options.run_dir. `options`: the program's own, without the run's settings. `nonce`: the only run
// to serve; unset: any run. Returns nothing when SIGTERM or SIGINT comes first, or that run is over. Blocks: for
// minutes, while a producer loads its model. Errors: ConfigError without a directory; NoSuchRun, also if another run is
// there.
std::optional<Endpoint> wait_for_run(const RunConfig& options, std::optional<std::uint64_t> nonce,
                                     const EndSignals& signals);

// For the run of a custom program, which admits any consumer.
inline constexpr std::uint64_t kNoSettings = 0;

// Attaches one consumer to a run, serves it to the end, and cleans up after the run if it is the last process. Returns
// the program's exit code. `config`: with the run's settings; `work`: how it processes slabs, as the run's producer
// expects (SlabWork; kNoSettings for a run without settings). The processor is made once the run has admitted this
// consumer: a refused consumer creates no processor and changes nothing.
//
// Borrows: config, signals, what `make` returns. Thread: main's. Blocks: for the length of the run. Errors: Error with
// its exit code.
int serve_run(const RunConfig& config, std::uint64_t work, const Endpoint& endpoint, const EndSignals& signals,
              const std::function<SlabProcessor&()>& make);

// Runs a program's body. Logs an exception as one line and returns its exit code.
int exit_code_of(const std::function<int()>& body) noexcept;

// Processes the payload of one dead letter (common/dead_letters) without a run: no shared memory, no messages, no other
// process to take over. Returns the program's exit code. If it is killed or throws, only the processor's commits
// remain.
//
// Borrows: processor. Thread: main's. Blocks: for as long as the processor takes. Errors: Error with its exit code;
// those of the processor.
int retry_payload(const std::string& path, SlabProcessor& processor);

// Like retry_payload(), but finds the samples that fail. It processes the whole payload, then halves each part that
// fails, until only single samples fail. All other samples then have their results.
//
// `report` is a file of JSON lines. This program appends to it and flushes it, for the process that started it:
//   {"trying":[FIRST,END]}                    samples FIRST to END-1, by their index in the payload
//   {"done":[FIRST,END]}                      their results are committed
//   {"failed":[FIRST,END],"why":"..."}        they failed; for a single sample this is final
// Restarted with the same report, it continues after the last line. A part that was in progress counts as failed,
// because the program died in it.
//
// Returns the exit code: 0 once every sample is done or has failed alone. Borrows: processor. Thread: main's. Blocks:
// for as long as the processor takes. Errors: as above; SystemError when the report cannot be written.
int retry_samples(const std::string& path, const std::string& report, SlabProcessor& processor);

}  // namespace offramp
