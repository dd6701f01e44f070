#pragma once

#include <cstdint>
#include <string>

namespace offramp {

class SettingGroup;

// Limits of --image-size and --resize-size.
inline constexpr std::uint32_t kSmallestImageSize = 32;
inline constexpr std::uint32_t kLargestImageSize = 8192;

// Where items come from, and how they are read.
struct InputSettings {
    std::string source = "auto";   // a name of the sources' table; auto: source_of_input(); "text" when the model takes
                                   // tokens, "npy" when it takes arrays
    std::string input;             // folder, list, manifest, array, shards or text
    std::string input_list;        // the stored listing of a folder of images; empty: it is listed
    std::string tokenizer;         // tokenizer.json of sources of texts; empty: beside the model
    std::string id_column = "id";  // of sources "jsonl-text" and "parquet-text"
    std::string text_column = "text";
    std::string columns;                // names with a comma between; empty: all but those two
    std::uint32_t chunk_tokens = 0;     // of sources of texts: tokens that a chunk has at most; 0: texts are not cut
    std::uint32_t chunk_overlap = 0;    // tokens that a chunk has at most of the one before
    std::string synthetic_on = "host";  // "host": made by decode workers and uploaded; "device": resident
    std::uint64_t batches = 0;          // of a synthetic source; 0: auto
    std::uint64_t limit = 0;            // items at most; 0: all
    std::string shard;                  // "i/N": only the i-th of N equal parts of these; empty: all
    std::uint32_t batch = 0;            // samples in a batch; 0: auto
    std::string by_length = "auto";     // of texts: how many of a batch are computed together; "off": all of it
    std::uint32_t image_size = 0;       // height and width that images are brought to; 0: auto
    // of the shorter side, before image_size is cut from the middle; 0: auto, then all of an image
    std::uint32_t resize_size = 0;
    std::string interpolation = "auto";  // of images: "bilinear", "bicubic"
    std::uint32_t tile = 0;              // height and width of tiles that images are cut into; 0: they are resized
    std::string overlap = "auto";        // of neighbouring tiles, in pixels; "auto": an eighth of `tile`
    std::uint32_t decode_workers = 0;    // 0: auto
    std::uint32_t prefetch = 2;          // batches staged ahead of the model
    std::string max_errors = "10%";      // unreadable items before the run fails: "25" or "1%"

    // The number in `overlap`.
    std::uint32_t overlap_pixels() const;

    // The number in `by_length`; 0: batches are computed as they are.
    std::uint32_t group_rows() const;

    bool operator==(const InputSettings&) const = default;
};

void describe_input(SettingGroup& group);

}  // namespace offramp
