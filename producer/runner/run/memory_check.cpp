#include "producer/runner/run/memory_check.hpp"

#include <fstream>
#include <map>

#include "common/base/error.hpp"
#include "common/base/log.hpp"
#include "common/base/remedy.hpp"

namespace offramp {
namespace {

// "Name:  123 kB" of each line, in bytes.
std::map<std::string, std::uint64_t> read_kilobytes(const std::string& path) {
    std::map<std::string, std::uint64_t> bytes_by_name;
    std::ifstream file(path);
    std::string name, unit;
    for (std::string line; std::getline(file, line);) {
        const std::size_t colon = line.find(':');
        if (colon == std::string::npos || !line.ends_with(" kB")) continue;
        try {
            bytes_by_name[line.substr(0, colon)] = std::stoull(line.substr(colon + 1)) * 1024;
        } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): not a number
        }
    }
    return bytes_by_name;
}

std::string gibibytes(std::uint64_t bytes) {
    return fmt::format("{:.1f} GiB", static_cast<double>(bytes) / static_cast<double>(1U << 30U));
}

}  // namespace

MachineMemory MachineMemory::read(const std::string& machine, const std::string& process) {
    auto of_machine = read_kilobytes(machine);
    auto own = read_kilobytes(process);
    return {.total = of_machine["MemTotal"] + of_machine["SwapTotal"],
            .available = of_machine["MemAvailable"] + of_machine["SwapFree"],
            .own = own["RssAnon"]};
}

void require_memory(const MachineMemory& memory, std::uint32_t slabs, std::uint64_t slab_bytes, std::uint32_t batch) {
    const std::uint64_t pool = slabs * slab_bytes;
    if (memory.total == 0 || (pool + memory.own <= memory.total && pool <= memory.available)) return;
    const std::string sizes = fmt::format(
        "{} for {} slabs of {:.1f} MiB, beside the {} that this producer uses now, its model and the model's memory "
        "for a batch of {}",
        gibibytes(pool), slabs, static_cast<double>(slab_bytes) / (1U << 20U), gibibytes(memory.own), batch);
    const std::string fix =
        "Give a smaller --batch, fewer --slabs, or with --tile a smaller --tile and a model of that size";
    if (pool + memory.own > memory.total)
        throw Error(ErrorKind::System,
                    "the run takes more memory than the " + gibibytes(memory.total) + " of this machine: " + sizes,
                    fix);
    spdlog::warn("memory may become short: {} are available (/proc/meminfo), and the run takes {}. {}",
                 gibibytes(memory.available), sizes, fix);
}

}  // namespace offramp
