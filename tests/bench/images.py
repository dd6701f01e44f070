"""Photographs, as far as a decoder is concerned: smooth pictures with some noise, as JPEG files of 640×480, in a list that goes on.

    images.py FOLDER BATCH     makes them and prints {"list": FILE}
"""

import json
import pathlib
import sys

MOST_PICTURES = 64
REPEATED_BATCHES = 6000    # what the fastest row reads in a contest, several times over


def make_images(folder, batch):
    """The list file, made once for a folder. Keys of repetitions get numbers, so every item has an output of its own."""
    pictures = pathlib.Path(folder) / "pictures"
    listing = pictures / "list.txt"
    if listing.exists():
        return listing
    pictures.mkdir()
    import torch                                  # slow, and leaves files of its own: in a process of its own
    from torchvision.io import write_jpeg
    torch.manual_seed(1)
    names = []
    for number in range(min(MOST_PICTURES, 4 * batch)):
        rough = torch.nn.functional.interpolate(torch.rand(1, 3, 12, 16), size=(480, 640), mode="bicubic")[0]
        noisy = (rough * 255 + torch.randn(3, 480, 640) * 4).clamp(0, 255).to(torch.uint8)
        names.append(f"{number:03}.jpg")
        write_jpeg(noisy, str(pictures / names[-1]), quality=90)
    listing.write_text("\n".join(names[number % len(names)] for number in range(batch * REPEATED_BATCHES)) + "\n")
    return listing


if __name__ == "__main__":
    print(json.dumps({"list": str(make_images(sys.argv[1], int(sys.argv[2])))}))
