#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "common/config/run_config.hpp"
#include "consumer/processors/processor.hpp"

namespace offramp {

using MakeProcessor = std::function<std::unique_ptr<Processor>(const RunConfig&)>;

// offramp-consumer from its command line to its exit code: serves a run, or does what --prepare, --list, --finish or --retry ask for.
// Its processor is the one that `make` makes, so that tests can have one that fails; `made_besides`: names that `make` knows and the table does not.
// `stands_for`: the processor that the run is told of instead, which lets in none but its own; empty: the one in the settings.
//
// Borrows: all of it. Thread: main's. Blocks: for the length of the run. Errors: none; they are logged, and the exit code says them.
int run_consumer(int argc, const char* const* argv, const MakeProcessor& make, std::span<const std::string_view> made_besides = {},
                 const std::string& stands_for = {}) noexcept;

}  // namespace offramp
