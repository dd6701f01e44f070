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

// Waits for the run in options.run_dir. `options`: as given to the program, before anything of the run is known.
// `nonce`: of the only run that this consumer is for; without it, for whichever is there. Nothing when SIGTERM or
// SIGINT came first, or that run is over. Blocks: for minutes, while a producer loads its model. Errors: ConfigError
// without a directory; NoSuchRun, also where another run is there.
std::optional<Endpoint> wait_for_run(const RunConfig& options, std::optional<std::uint64_t> nonce,
                                     const EndSignals& signals);

// For a custom program's run, which admits any consumer.
inline constexpr std::uint64_t kNoSettings = 0;

// Attaches one consumer to a run, serves it to the end, and cleans up after the run when it is the last process.
// Returns the program's exit code. `config`: with what the run settled; `work`: what it does with slabs, as the run's
// producer knows it (SlabWork; kNoSettings of a run without settings). The processor is made when the run has let this
// consumer in: one that is refused has made and touched nothing.
//
// Borrows: config, signals, what `make` gives. Thread: main's. Blocks: for the length of the run. Errors: Error with
// its exit code.
int serve_run(const RunConfig& config, std::uint64_t work, const Endpoint& endpoint, const EndSignals& signals,
              const std::function<SlabProcessor&()>& make);

// Runs a program's body and turns what it throws into one line of log and its exit code.
int exit_code_of(const std::function<int()>& body) noexcept;

// Processes the payload of one dead letter (common/dead_letters), without a run: no shared memory, no messages,
// no other process to take over. Returns the program's exit code. Killed or thrown out, it has changed nothing but what
// the processor had committed.
//
// Borrows: processor. Thread: main's. Blocks: for as long as the processor takes. Errors: Error with its exit code;
// what the processor throws.
int retry_payload(const std::string& path, SlabProcessor& processor);

// The same, to find out which samples fail: the payload is processed whole, and a part that fails is cut in halves,
// until only single samples fail. Every other sample has its results then.
//
// `report` is a file of JSON lines, which this program appends to and flushes, for the process that started it:
//   {"trying":[FIRST,END]}                    samples FIRST to END-1, by their index in the payload
//   {"done":[FIRST,END]}                      they have their results
//   {"failed":[FIRST,END],"why":"..."}        they have not; a single sample is final
// Started again with the same report, it continues after the last line; a part under way has failed then: the program
// died in it.
//
// Returns the exit code: 0 once every sample is done or has failed alone. Borrows: processor. Thread: main's. Blocks:
// for as long as the processor takes. Errors: as above; SystemError when the report cannot be written.
int retry_samples(const std::string& path, const std::string& report, SlabProcessor& processor);

}  // namespace offramp
