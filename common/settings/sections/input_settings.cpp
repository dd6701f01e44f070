#include "common/settings/sections/input_settings.hpp"

#include "common/settings/effects.hpp"
#include "common/settings/setting_checks.hpp"
#include "common/settings/setting_group.hpp"

namespace offramp {

void describe_input(SettingGroup& group) {
    group.text("source", &InputSettings::source, of_slabs(always, reads_input), "NAME", kPluginName,
               "Where items come from", check_plugin_name);
    group.path("input", &InputSettings::input, of_items_at_hand(), "PATH", "a path",
               "Folder of images, a file that lists them (paths, or JSON in .jsonl), a .npy array (for a model of "
               "several inputs a folder with NAME.npy of each), WebDataset shards (.tar, or --source webdataset and "
               "their folder), lines of text (--source text)");
    group.path("input-list", &InputSettings::input_list, kConduct, "FILE", "the path of a list that a job made",
               "What lies in an --input folder of images, as it was listed for a job; none: the folder is listed");
    group.path("tokenizer", &InputSettings::tokenizer, kItems, "FILE", "the path of a tokenizer.json",
               "Source `text`: how lines become tokens; none: MODEL.tokenizer.json beside MODEL.pt2");
    group.word("synthetic-on", &InputSettings::synthetic_on, of_slabs(is_synthetic), {"host", "device"},
               "Synthetic items are made on the host and uploaded, or lie on the device");
    group.whole("batches", &InputSettings::batches, kItems, {1, kAnyNumber, "auto"}, "Batches of a synthetic source");
    group.whole("limit", &InputSettings::limit, kItems, {1, kAnyNumber, "all"},
                "Items at most: the first of the input");
    group.text("shard", &InputSettings::shard, of_slabs(is_sharded), "I/N", "I/N with I from 1 to N, as 1/4",
               "Only the I-th of N equal parts of the input, whose order is stable", check_shard);
    group.whole("batch", &InputSettings::batch, of_slabs(shows_its_batches), {1, 65536, "auto"}, "Samples in a batch");
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
    group.whole("decode-workers", &InputSettings::decode_workers, kConduct, {1, 1024, "auto"},
                "Threads that read and decode items");
    group.whole("prefetch", &InputSettings::prefetch, kConduct, {1, 64, ""}, "Batches staged ahead of the model");
    group
        .text("max-errors", &InputSettings::max_errors, kConduct, "N|P%",
              "a number (25) or a share of all items (0% to 100%)",
              "Unreadable items, and such that come to nothing, that a run bears; with one more it fails. A share is "
              "of the whole input, rounded up",
              check_max_errors)
        .toml_types.push_back(TomlType::Integer);
}

}  // namespace offramp
