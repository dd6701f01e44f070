#include "common/settings/processor_results.hpp"

#include <algorithm>
#include <array>

namespace offramp {
namespace {

// .jpeg is none of ours, and looks like one.
constexpr std::array<std::string_view, 7> kEndings{".png", ".jpg", ".webp", ".npy", ".bin", ".safetensors", ".jpeg"};
constexpr std::array<std::string_view, 1> kPng{".png"}, kJpeg{".jpg"}, kNpy{".npy"}, kBytes{".bin"}, kSafetensors{".safetensors"};
constexpr std::array<std::string_view, 3> kPictures{".png", ".jpg", ".webp"};
constexpr std::array<std::string_view, 2> kOfAuto{".png", ".npy"};

constexpr ProcessorResults kAll[] = {
    {.processor = "auto", .endings = kOfAuto},
    {.processor = "mask-png", .reads = Reads::Masks, .endings = kPng},
    {.processor = "cut-out", .reads = Reads::Masks, .endings = kPng},
    {.processor = "overlay", .reads = Reads::Masks, .endings = kJpeg},
    {.processor = "image", .reads = Reads::Pictures, .endings = kPictures},
    {.processor = "npy", .endings = kNpy, .output_in_name = true},
    {.processor = "safetensors", .endings = kSafetensors, .one_for_all_outputs = true},
    {.processor = "checksum", .whole = "checksums.tsv"},
    {.processor = "mask-rle", .reads = Reads::Masks, .whole = "masks.jsonl"},
    {.processor = "records", .whole = "records.sqlite"},
    {.processor = "records-postgres"},
    {.processor = "embeddings-sqlite", .reads = Reads::Vectors, .whole = "embeddings.sqlite"},
    {.processor = "embeddings-parquet", .reads = Reads::Vectors, .whole = "embeddings.parquet"},
    {.processor = "embeddings-postgres", .reads = Reads::Vectors},
    {.processor = "write", .endings = kBytes, .output_in_name = true, .in_output = false},
    {.processor = "http", .in_output = false},
    {.processor = "none", .in_output = false}};

}  // namespace

std::span<const ProcessorResults> ProcessorResults::all() { return kAll; }

const ProcessorResults* ProcessorResults::of(std::string_view processor) {
    const auto* const found = std::ranges::find(kAll, processor, &ProcessorResults::processor);
    return found == std::end(kAll) ? nullptr : found;
}

bool makes_files_of_items(std::string_view processor) {
    const ProcessorResults* const known = ProcessorResults::of(processor);
    return known == nullptr || (known->in_output && known->has_files_of_items());
}

bool may_end_result(std::string_view processor, std::string_view file) {
    const ProcessorResults* const known = ProcessorResults::of(processor);
    return known == nullptr || std::ranges::any_of(known->endings, [&](std::string_view ending) { return file.ends_with(ending); });
}

std::span<const std::string_view> endings_of_items() { return kEndings; }

}  // namespace offramp
