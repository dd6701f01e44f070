#pragma once

namespace offramp {

// The kind of an Error. Its number is the same everywhere: the C ABI returns it (offramp.h), and a program that fails
// with the error uses it as exit code. The numbers follow sysexits(3) where possible, so that schedulers' "retry on 75"
// rules work.
enum class ErrorKind : int {
    None = 0,                // for functions that return a kind: no failure
    Internal = 1,            // an unexpected exception: a bug in Offramp
    Usage = 64,              // an unknown flag or a value that no machine could accept
    BadInput = 65,           // bad input data: more unreadable items than --max-errors, wrong weights
    NoInput = 66,            // the input folder or list does not exist or is empty
    NoSuchRun = 69,          // scale, stop, status or a consumer without a live run
    CountMismatch = 70,      // read and accounted samples differ: a bug in Offramp, with a dump of the ledger
    System = 71,             // the operating system refused something that should work
    CannotWrite = 73,        // the output folder cannot be written
    SinkUnavailable = 75,    // the destination of results is unavailable: a retry may help
    Protocol = 76,           // a peer of another version or layout
    NotPermitted = 77,       // another user's run or consumer
    Config = 78,             // a configuration file that cannot be used
    SharedMemoryFull = 80,   // /dev/shm is too small for the slabs
    DeviceOutOfMemory = 81,  // the GPU has too little memory for model, input and output
    DeviceBroken = 82,       // a sticky CUDA error: the process's context is lost
    DeviceUnsupported = 83,  // driver, GPU or LibTorch too old, or memory that cannot be page-locked
    RunInUse = 85,           // a second producer on the same run directory
    ProducerGone = 86,       // a consumer's producer died
    Interrupted = 130,       // stopped on the user's request before it was done
};

constexpr int to_int(ErrorKind kind) { return static_cast<int>(kind); }

}  // namespace offramp
