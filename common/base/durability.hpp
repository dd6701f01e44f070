#pragma once

namespace offramp {

// What a committed result, or what is noted of it, survives.
enum class Durability {
    Process,   // the death of every process
    PowerCut,  // and that of the machine: file, then folder, are flushed to the disk before the commit returns
};

}  // namespace offramp
