#pragma once

namespace offramp {

// What a committed result survives.
enum class Durability {
    Process,   // the death of every process
    PowerCut,  // and that of the machine: file, then folder, are flushed to the disk before the commit returns
};

}  // namespace offramp
