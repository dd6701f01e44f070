#pragma once

namespace offramp {

// The failures that a committed result and its record survive.
enum class Durability {
    Process,   // the death of every process
    PowerCut,  // and that of the machine: file, then folder, are flushed to the disk before the commit returns
};

}  // namespace offramp
