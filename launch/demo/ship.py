"""
Writes the photographs of a plain run, launch/demo/images, and their true masks, launch/demo/masks.

    cd launch && ../build/venv/bin/python -m demo.ship

Neither training nor measurement uses their series. They were picked for variety before any network processed them.
"""

import pathlib

from PIL import Image

from demo.photographs import take_photograph

HERE = pathlib.Path(__file__).parent
SERIES, LONGEST = 3, 480
PICKED = {
    "goblet": 1,
    "bottle": 3,
    "plant": 5,
    "carton": 6,
    "bracelet": 9,
    "ball": 13,
    "lamp": 19,
    "vase": 23,
    "shelf": 25,
    "bag": 27,
    "table": 35,
    "shirt": 36,
}
THING_COLOUR = (128, 0, 0)  # class 1 in mask-png's palette


def main():
    for folder in ("images", "masks"):
        (HERE / folder).mkdir(exist_ok=True)
    for name, index in PICKED.items():
        photograph = take_photograph(SERIES, index, LONGEST)
        (HERE / "images" / f"{name}.jpg").write_bytes(photograph.jpeg)
        mask = Image.fromarray(photograph.mask)
        mask.putpalette([0, 0, 0, *THING_COLOUR])
        mask.save(HERE / "masks" / f"{name}.png", optimize=True, bits=1)


if __name__ == "__main__":
    main()
