"""
Makes JPEG files for producers and peers, and a long list that repeats them.

    images.py FOLDER BATCH                    smooth pictures with some noise, of 640×480; a list of paths
    images.py FOLDER BATCH --large            the same of 1024×768 with more noise, 250 KB each
    images.py FOLDER BATCH --longest PIXELS   photographs from the demo's studio; a JSONL manifest, whose ids are the
                                              items' numbers, each batch the same

It prints {"list": FILE}.
"""

import argparse
import json
import pathlib
import sys

LAUNCH = pathlib.Path(__file__).resolve().parents[2] / "launch"
MOST_PICTURES = 64
REPEATED_BATCHES, LEAST_ITEMS = 6000, 400_000  # several times what the fastest row reads in a contest
SERIES = 4  # of photographs; the demo uses 1 to 3 for training, measuring and display


def make_images(folder, batch, width=640, height=480, noise=4):
    """Repetitions get numbered keys, so that every item has its own output."""
    import torch  # slow, and leaves temporary files, so it runs in this separate process
    from torchvision.io import write_jpeg

    torch.manual_seed(1)
    names = []
    for number in range(min(MOST_PICTURES, 4 * batch)):
        rough = torch.nn.functional.interpolate(torch.rand(1, 3, 12, 16), size=(height, width), mode="bicubic")[0]
        noisy = (rough * 255 + torch.randn(3, height, width) * noise).clamp(0, 255).to(torch.uint8)
        names.append(f"{number:03}.jpg")
        write_jpeg(noisy, str(folder / names[-1]), quality=90)
    return [names[number % len(names)] for number in range(items_of(batch))]


def make_photographs(folder, batch, longest):
    sys.path.insert(0, str(LAUNCH))
    from demo.photographs import take_photograph

    names = [f"{number:03}.jpg" for number in range(min(MOST_PICTURES, batch))]
    for number, name in enumerate(names):
        (folder / name).write_bytes(take_photograph(SERIES, number, longest).jpeg)
    return [json.dumps({"id": str(item), "uri": names[item % batch % len(names)]}) for item in range(items_of(batch))]


def items_of(batch):
    return max(batch * REPEATED_BATCHES, LEAST_ITEMS)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("batch", type=int)
    parser.add_argument("--longest", type=int)
    parser.add_argument("--large", action="store_true")
    options = parser.parse_args()
    options.folder.mkdir(exist_ok=True)
    lines = (
        make_photographs(options.folder, options.batch, options.longest)
        if options.longest
        else make_images(options.folder, options.batch, *((1024, 768, 9) if options.large else ()))
    )
    listing = options.folder / ("list.jsonl" if options.longest else "list.txt")
    listing.write_text("\n".join(lines) + "\n")
    print(json.dumps({"list": str(listing)}))


if __name__ == "__main__":
    main()
