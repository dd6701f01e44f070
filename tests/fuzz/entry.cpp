// The entry points by which libFuzzer or stand_alone_driver.cpp feeds a target. OFFRAMP_FUZZ_TARGET names the target.
// --list prints the targets; --seeds FOLDER writes the target's seeds and exits.

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>

#include "common/base/log.hpp"
#include "tests/fuzz/fuzz_target.hpp"

namespace {

std::unique_ptr<const offramp::FuzzTarget> target;

[[noreturn]] void list_targets(int code) {
    for (const auto& entry : offramp::FuzzTargetEntry::all())
        std::printf("%.*s\n", static_cast<int>(entry.name.size()), entry.name.data());
    std::exit(code);
}

[[noreturn]] void write_seeds(const std::filesystem::path& folder) {
    std::filesystem::create_directories(folder);
    for (std::size_t i = 0; i < target->seeds.size(); ++i)
        std::ofstream(folder / ("seed-" + std::to_string(i)), std::ios::binary) << target->seeds[i];
    std::exit(0);
}

}  // namespace

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer's name
extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
    const std::string_view first = *argc > 1 ? (*argv)[1] : "";
    if (first == "--list") list_targets(0);
    spdlog::set_level(spdlog::level::off);
    const char* const wanted = std::getenv("OFFRAMP_FUZZ_TARGET");
    for (const auto& entry : offramp::FuzzTargetEntry::all())
        if (wanted != nullptr && entry.name == wanted)
            target = std::make_unique<const offramp::FuzzTarget>(entry.make());
    if (target == nullptr) {
        std::fprintf(stderr, "OFFRAMP_FUZZ_TARGET is '%s', wanted one of:\n", wanted == nullptr ? "" : wanted);
        list_targets(64);
    }
    if (first == "--seeds" && *argc > 2) write_seeds((*argv)[2]);
    return 0;
}

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer's name
extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
    target->feed({reinterpret_cast<const std::byte*>(data), size});
    return 0;
}
