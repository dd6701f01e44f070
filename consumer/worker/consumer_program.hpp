#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "common/app/program/end_signals.hpp"
#include "common/app/settings/run_config.hpp"
#include "common/transport/endpoint.hpp"
#include "consumer/session/consumer_loop.hpp"

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

}  // namespace offramp
