#include "common/settings/processor_results.hpp"

#include <algorithm>
#include <array>
#include <filesystem>

namespace offramp {
namespace {

// .jpeg is none of ours, and looks like one.
constexpr std::array<std::string_view, 7> kEndings{".png", ".jpg", ".webp", ".npy", ".bin", ".safetensors", ".jpeg"};
constexpr std::array<std::string_view, 1> kPng{".png"}, kJpeg{".jpg"}, kNpy{".npy"}, kBytes{".bin"},
    kSafetensors{".safetensors"};
constexpr std::array<std::string_view, 3> kPictures{".png", ".jpg", ".webp"};
constexpr std::array<std::string_view, 2> kOfAuto{".png", ".npy"};

constexpr ProcessorResults kAll[] = {
    {.processor = "auto", .endings = kOfAuto},
    {.processor = "mask-png", .reads = Reads::Masks, .endings = kPng},
    {.processor = "cut-out", .reads = Reads::Masks, .looks_at = LooksAt::Pictures, .endings = kPng},
    {.processor = "overlay", .reads = Reads::Masks, .looks_at = LooksAt::Pictures, .endings = kJpeg},
    {.processor = "image", .reads = Reads::Pictures, .endings = kPictures, .ending_from = "image-format"},
    {.processor = "npy", .endings = kNpy, .output_in_name = true},
    {.processor = "safetensors", .endings = kSafetensors, .one_for_all_outputs = true},
    {.processor = "checksum", .whole = "checksums.tsv"},
    {.processor = "mask-rle", .reads = Reads::Masks, .whole = "masks.jsonl"},
    {.processor = "records", .looks_at = LooksAt::Items, .whole = "records.sqlite"},
    {.processor = "records-postgres", .looks_at = LooksAt::Items},
    {.processor = "embeddings-sqlite", .reads = Reads::Vectors, .whole = "embeddings.sqlite"},
    {.processor = "embeddings-parquet", .reads = Reads::Vectors, .whole = "embeddings.parquet"},
    {.processor = "embeddings-postgres", .reads = Reads::Vectors},
    {.processor = "write", .endings = kBytes, .output_in_name = true, .in_output = false, .in_write_path = true},
    {.processor = "http", .in_output = false},
    {.processor = "none", .in_output = false}};

}  // namespace

std::span<const ProcessorResults> ProcessorResults::all() { return kAll; }

const ProcessorResults* ProcessorResults::of(std::string_view processor) {
    const auto* const found = std::ranges::find(kAll, processor, &ProcessorResults::processor);
    return found == std::end(kAll) ? nullptr : found;
}

bool has_results_in_folder(std::string_view processor, const std::string& write_path) {
    const ProcessorResults* const known = ProcessorResults::of(processor);
    std::error_code unknown;
    return known == nullptr || known->in_output ||
           (known->in_write_path && std::filesystem::is_directory(write_path, unknown));
}

bool makes_files_of_items(std::string_view processor, const std::string& write_path) {
    const ProcessorResults* const known = ProcessorResults::of(processor);
    return known == nullptr || (known->has_files_of_items() && has_results_in_folder(processor, write_path));
}

bool may_end_result(std::string_view processor, std::string_view file) {
    const ProcessorResults* const known = ProcessorResults::of(processor);
    return known == nullptr ||
           std::ranges::any_of(known->endings, [&](std::string_view ending) { return file.ends_with(ending); });
}

std::span<const std::string_view> endings_of_items() { return kEndings; }

}  // namespace offramp
