#include "common/settings/sections/input_settings.hpp"

#include <string>

#include "common/settings/effects.hpp"
#include "common/settings/setting_checks.hpp"
#include "common/settings/setting_group.hpp"

namespace offramp {

std::uint32_t InputSettings::overlap_pixels() const {
    return overlap == "auto" ? tile / 8 : static_cast<std::uint32_t>(std::stoul(overlap));
}

std::uint32_t InputSettings::group_rows() const {
    return by_length == "auto" || by_length == "off" ? 0 : static_cast<std::uint32_t>(std::stoul(by_length));
}

void describe_input(SettingGroup& group) {
    group.text("source", &InputSettings::source, of_slabs(always, reads_input), "NAME", kPluginName,
               "Where items come from", check_plugin_name);
    group.path(
        "input", &InputSettings::input, of_items_at_hand(), "PATH", "a path",
        "Folder of images, a file that lists them (paths, or JSON in .jsonl), a .npy array, a folder with one for "
        "each sample (for a model of several inputs with NAME.npy of each), WebDataset shards (.tar, or --source "
        "webdataset and "
        "their folder), lines of text (--source text), texts with ids and columns (--source jsonl-text, parquet-text)");
    group.path("input-list", &InputSettings::input_list, kRuntime, "FILE", "the path of a list that a job made",
               "What lies in an --input folder of images, as it was listed for a job; none: the folder is listed");
    group.path("tokenizer", &InputSettings::tokenizer, kItems, "FILE", "the path of a tokenizer.json",
               "Sources of texts: how they become tokens; none: MODEL.tokenizer.json beside MODEL.pt2");
    group.text("id-column", &InputSettings::id_column, kItems, "NAME", "a column's name",
               "Sources `jsonl-text`, `parquet-text`: the column of ids, which results are named by",
               check_column_name);
    group.text("text-column", &InputSettings::text_column, kItems, "NAME", "a column's name",
               "The same: the column of texts", check_column_name);
    group.text(
        "columns", &InputSettings::columns, kItems, "A,B", "names of columns, with a comma between",
        "The same: further columns, which processors `embeddings-...` and `records` put beside the results; none: all",
        check_column_names);
    group.whole(
        "chunk-tokens", &InputSettings::chunk_tokens, of_slabs(is_chunked, is_chunked), {4, 1'000'000, "none"},
        "Sources of texts: a text of more tokens is cut into chunks of at most so many, the model's own ([CLS]) "
        "included, between words where there are some; each is an item, with a vector of its own");
    group.whole("chunk-overlap", &InputSettings::chunk_overlap, of_slabs(is_chunked, is_chunked),
                {1, 1'000'000, "none"}, "Tokens at most that a chunk has in common with the one before");
    group.word("synthetic-on", &InputSettings::synthetic_on, of_slabs(is_synthetic), {"host", "device"},
               "Synthetic items are made on the host and uploaded, or lie on the device");
    group.whole("batches", &InputSettings::batches, kItems, {1, kAnyNumber, "auto"}, "Batches of a synthetic source");
    group.whole("limit", &InputSettings::limit, kItems, {1, kAnyNumber, "all"},
                "Items at most: the first of the input");
    group.text("shard", &InputSettings::shard, of_slabs(is_sharded), "I/N", "I/N with I from 1 to N, as 1/4",
               "Only the I-th of N equal parts of the input, whose order is stable", check_shard);
    group.whole("batch", &InputSettings::batch, of_slabs(shows_its_batches), {1, 65536, "auto"}, "Samples in a batch");
    group.text(
        "by-length", &InputSettings::by_length, of_slabs(is_by_length), "N",
        "auto, off, or a whole number of 1 to 65536",
        "Sources of texts: a batch is computed N texts at a time, ordered by their lengths, and filled up to the "
        "longest of those N only; auto: a 32nd of --batch where the metadata beside the model says any-length",
        check_by_length);
    group.whole("image-size", &InputSettings::image_size, of_slabs(has_a_model, reads_pictures),
                {kSmallestImageSize, kLargestImageSize, "auto"},
                "Height and width that images are brought to, or that are cut from their middle (--resize-size)");
    group.whole(
        "resize-size", &InputSettings::resize_size, of_slabs(cuts_pictures, reads_cut_pictures),
        {kSmallestImageSize, kLargestImageSize, "auto"},
        "Length that an image's shorter side is brought to, its proportions kept, before --image-size is cut from the "
        "middle; auto: as the metadata beside the model says, else all of the image is squeezed into --image-size");
    group.word("interpolation", &InputSettings::interpolation, of_slabs(is_bicubic), {"auto", "bilinear", "bicubic"},
               "How images are resized; auto: as the metadata beside the model says, else bilinear");
    group.whole(
        "tile", &InputSettings::tile, of_slabs(is_tiled, is_tiled), {kSmallestImageSize, kLargestImageSize, "none"},
        "Height and width of tiles that images are cut into, of any size, instead of being resized: what the model "
        "takes. Their results are put together again, into one mask for each image");
    group.text("overlap", &InputSettings::overlap, of_slabs(is_tiled, is_tiled), "N",
               "a whole number less than half of --tile, or auto",
               "Pixels that neighbouring tiles share, where their scores are blended; auto: an eighth of --tile",
               check_overlap);
    group.whole("decode-workers", &InputSettings::decode_workers, kRuntime, {1, 1024, "auto"},
                "Threads that read and decode items");
    group.whole("prefetch", &InputSettings::prefetch, kRuntime, {1, 64, ""}, "Batches staged ahead of the model");
    group
        .text("max-errors", &InputSettings::max_errors, kRuntime, "N|P%",
              "a number (25) or a share of all items (0% to 100%)",
              "Unreadable items, and such that come to nothing, that a run bears; with one more it fails. A share is "
              "of the whole input, rounded up",
              check_max_errors)
        .toml_types.push_back(TomlType::Integer);
}

}  // namespace offramp
