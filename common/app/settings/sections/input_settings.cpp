#include "common/app/settings/sections/input_settings.hpp"

#include <string>

#include "common/app/settings/effects.hpp"
#include "common/app/settings/setting_checks.hpp"
#include "common/app/settings/setting_group.hpp"

namespace offramp {

std::uint32_t InputSettings::overlap_pixels() const {
    return overlap == "auto" ? tile / 8 : static_cast<std::uint32_t>(std::stoul(overlap));
}

std::uint32_t InputSettings::group_rows() const {
    return by_length == "auto" || by_length == "off" ? 0 : static_cast<std::uint32_t>(std::stoul(by_length));
}

void describe_input(SettingGroup& group) {
    SettingGroup rare = group.advanced();
    group.text("source", &InputSettings::source, of_slabs(always, reads_input), "NAME", kPluginName,
               "Where items come from", check_plugin_name);
    group.path(
        "input", &InputSettings::input, of_items_at_hand(), "PATH", "a path",
        "Folder of images, a file that lists them (paths, or JSON in .jsonl), a .npy array, a folder with one for "
        "each sample (for a model of several inputs with NAME.npy of each), WebDataset shards (.tar, or --source "
        "webdataset and "
        "their folder), lines of text (--source text), texts with ids and columns (--source jsonl-text, parquet-text)");
    group.of_the_launcher().path("input-list", &InputSettings::input_list, kRuntime, "FILE",
                                 "the path of a list that a job made",
                                 "A job's list of the images in the --input folder; none: list the folder");
    rare.path("tokenizer", &InputSettings::tokenizer, kItems, "FILE", "the path of a tokenizer.json",
              "Sources of texts: the tokenizer; none: MODEL.tokenizer.json beside MODEL.pt2");
    rare.text("id-column", &InputSettings::id_column, kItems, "NAME", "a column's name",
              "Sources `jsonl-text`, `parquet-text`: the column of ids, which name the results", check_column_name);
    rare.text("text-column", &InputSettings::text_column, kItems, "NAME", "a column's name",
              "Sources `jsonl-text`, `parquet-text`: the column of texts", check_column_name);
    rare.text(
        "columns", &InputSettings::columns, kItems, "A,B", "names of columns, with a comma between",
        "Sources `jsonl-text`, `parquet-text`: columns that processors `embeddings-...` and `records` copy to the "
        "results; none: all",
        check_column_names);
    group.whole("chunk-tokens", &InputSettings::chunk_tokens, of_slabs(is_chunked, is_chunked), {4, 1'000'000, "none"},
                "Sources of texts: maximum tokens per chunk, including the model's special tokens ([CLS]). Longer "
                "texts are split, between words if possible; each chunk is an item with its own vector");
    group.whole("chunk-overlap", &InputSettings::chunk_overlap, of_slabs(is_chunked, is_chunked),
                {1, 1'000'000, "none"}, "Maximum tokens that a chunk shares with the previous one");
    rare.word("synthetic-on", &InputSettings::synthetic_on, of_slabs(is_synthetic), {"host", "device"},
              "Where synthetic items are made: on the host, then uploaded, or on the device");
    rare.whole("batches", &InputSettings::batches, kItems, {1, kAnyNumber, "auto"}, "Batches of a synthetic source");
    group.whole("limit", &InputSettings::limit, kItems, {1, kAnyNumber, "all"},
                "Maximum items, from the start of the input");
    rare.text("shard", &InputSettings::shard, of_slabs(is_sharded), "I/N", "I/N with I from 1 to N, as 1/4",
              "Process only the I-th of N equal parts of the input, in stable order", check_shard);
    group.whole("batch", &InputSettings::batch, of_slabs(shows_its_batches), {1, 65536, "auto"}, "Samples in a batch");
    rare.text(
        "by-length", &InputSettings::by_length, of_slabs(is_by_length), "N",
        "auto, off, or a whole number of 1 to 65536",
        "Sources of texts: sort each batch by length and compute it N texts at a time, padded to the longest of those "
        "N; auto: 1/32 of --batch if the model's metadata has any-length",
        check_by_length);
    group.whole("image-size", &InputSettings::image_size, of_slabs(has_a_model, reads_pictures),
                {kSmallestImageSize, kLargestImageSize, "auto"},
                "Height and width that images are resized to, or cropped to from their center (--resize-size)");
    rare.whole("resize-size", &InputSettings::resize_size, of_slabs(cuts_pictures, reads_cut_pictures),
               {kSmallestImageSize, kLargestImageSize, "auto"},
               "Resize the shorter side to this length, keeping proportions, before the center crop to --image-size; "
               "auto: from the model's metadata, else squeeze the whole image into --image-size");
    rare.word("interpolation", &InputSettings::interpolation, of_slabs(is_bicubic), {"auto", "bilinear", "bicubic"},
              "How images are resized; auto: from the model's metadata, else bilinear");
    group.whole(
        "tile", &InputSettings::tile, of_slabs(is_tiled, is_tiled), {kSmallestImageSize, kLargestImageSize, "none"},
        "Height and width of the model's input: cut images of any size into tiles instead of resizing them. Their "
        "results are merged into one mask per image");
    group.text("overlap", &InputSettings::overlap, of_slabs(is_tiled, is_tiled), "N",
               "a whole number less than half of --tile, or auto",
               "Pixels that neighbouring tiles share, where their scores are blended; auto: an eighth of --tile",
               check_overlap);
    group.whole("decode-workers", &InputSettings::decode_workers, kRuntime, {1, 1024, "auto"},
                "Threads that read and decode items");
    rare.whole("prefetch", &InputSettings::prefetch, kRuntime, {1, 64, ""}, "Batches staged ahead of the model");
    group
        .text("max-errors", &InputSettings::max_errors, kRuntime, "N|P%",
              "a number (25) or a share of all items (0% to 100%)",
              "Maximum number or share of skipped items before the run fails. A share is of the whole input after "
              "--limit, rounded up",
              check_max_errors)
        .toml_types.push_back(TomlType::Integer);
}

}  // namespace offramp
