"""Third-party photographs from scikit-learn and scikit-image."""

import importlib.util
import pathlib

CARRIED = {
    "sklearn": ("datasets/images", ("china.jpg", "flower.jpg")),
    "skimage": (
        "data",
        ("astronaut.png", "chelsea.png", "coffee.png", "motorcycle_left.png", "rocket.jpg", "hubble_deep_field.jpg"),
    ),
}


def photographs():
    """The paths of the photographs; none without the packages (launch/requirements-test.txt)."""
    return [
        pathlib.Path(found.submodule_search_locations[0], folder, name)
        for package, (folder, names) in CARRIED.items()
        if (found := importlib.util.find_spec(package))
        for name in names
    ]
