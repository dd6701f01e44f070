"""
Cloud Optimised GeoTIFFs of the masks of a run with `--tile`, each with the position and projection of its original:

    python -m offramp.geotiff SCENES MASKS COGS

SCENES is the run's `--input`, a folder of GeoTIFF files. MASKS is its `--output`. COGS/KEY.tif is written for each mask
KEY.png, unless it is newer than the mask and the scene already.

Tested with rasterio 1.4.4. Importing this module imports rasterio; importing offramp does not.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import sys
import tempfile
import warnings
from typing import Iterator, Sequence

from offramp._errors import BadArgument
from offramp._packages import needs

with needs("offramp.geotiff", "rasterio"):
    import rasterio
    import rasterio.shutil
    from rasterio.enums import ColorInterp
    from rasterio.errors import NotGeoreferencedWarning, RasterioError
    from rasterio.windows import Window

__all__ = ["main", "write_cog"]

_ENDINGS = (".tif", ".tiff")
_BLOCK = 512  # pixels of a side; also of the COG's blocks
_END_OF_PNG = b"\0\0\0\0IEND\xaeB`\x82"
_SOFTWARE = {"TIFFTAG_SOFTWARE": "offramp.geotiff"}  # marks the files that may be replaced


def write_cog(mask: str | os.PathLike[str], original: str | os.PathLike[str], cog: str | os.PathLike[str]) -> None:
    """
    Writes the class ids of `mask`, a picture of the original's size, with its colours, as a Cloud Optimised GeoTIFF at
    the position of `original`. The file appears whole, by a rename. Overviews take the nearest pixel's class.

    Errors: BadArgument if `mask` is truncated or is no mask, if `original` has no position or another size, or if `cog`
    exists and is not such a file.
    """
    target = pathlib.Path(cog)
    _require_replaceable(target)
    _require_whole(mask)
    target.parent.mkdir(parents=True, exist_ok=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotGeoreferencedWarning)  # a mask has no position of its own
        _write(mask, original, target)


def _require_replaceable(cog: pathlib.Path) -> None:
    if not os.path.lexists(cog):
        return
    try:
        with rasterio.open(cog) as found:
            is_ours = _SOFTWARE.items() <= found.tags().items()
    except RasterioError:
        is_ours = False
    if not is_ours:
        raise BadArgument(f"{cog} exists and is not a file of offramp.geotiff. Give another folder for the results")


def _require_whole(mask: str | os.PathLike[str]) -> None:
    """GDAL reads a truncated PNG without an error."""
    with open(mask, "rb") as file:
        file.seek(max(os.path.getsize(mask) - len(_END_OF_PNG), 0))
        if file.read() != _END_OF_PNG:
            raise BadArgument(f"{mask} is truncated, or is not a PNG file. Continue its run with --resume")


def _write(mask: str | os.PathLike[str], original: str | os.PathLike[str], target: pathlib.Path) -> None:
    with rasterio.open(original) as scene:
        if scene.crs is None or scene.transform.is_identity:
            raise BadArgument(
                f"{original} has no position: it lacks a coordinate reference system or a transform. Add them, such as "
                "with rio edit-info"
            )
        with (
            rasterio.open(mask) as pixels,
            tempfile.TemporaryDirectory(prefix=".offramp-", dir=target.parent) as folder,
        ):
            if pixels.count != 1:
                raise BadArgument(f"{mask} has {pixels.count} bands, and a mask has 1. Give the results of mask-png")
            if (pixels.width, pixels.height) != (scene.width, scene.height):
                raise BadArgument(
                    f"{mask} has {pixels.width} x {pixels.height} pixels, and {original} {scene.width} x {scene.height}. "
                    "Give the folder that the run read"
                )
            # A PNG can be read only from its top, and a COG is not written in that order.
            plain, made = f"{folder}/plain.tif", f"{folder}/cog.tif"
            blocks = {"tiled": True, "blockxsize": _BLOCK, "blockysize": _BLOCK, "bigtiff": "if_safer"}
            position = {"crs": scene.crs, "transform": scene.transform}
            profile = {"width": scene.width, "height": scene.height, "count": 1, "dtype": pixels.dtypes[0]}
            with rasterio.open(plain, "w", driver="GTiff", compress="deflate", **blocks, **position, **profile) as copy:
                for top in range(0, scene.height, _BLOCK):
                    rows = Window(0, top, scene.width, min(_BLOCK, scene.height - top))
                    copy.write(pixels.read(1, window=rows), 1, window=rows)
                if ColorInterp.palette in pixels.colorinterp:
                    copy.write_colormap(1, pixels.colormap(1))
                copy.update_tags(**_SOFTWARE)
            rasterio.shutil.copy(
                plain,
                made,
                driver="COG",
                compress="deflate",
                blocksize=_BLOCK,
                overview_resampling="nearest",
                bigtiff="if_safer",
            )
            os.replace(made, target)


def _pairs(scenes: pathlib.Path, masks: pathlib.Path) -> Iterator[tuple[str, pathlib.Path, list[pathlib.Path]]]:
    """Each mask's key, its file and the scenes that may be its original."""
    originals: dict[str, list[pathlib.Path]] = {}
    for path in _files_in(scenes):
        if path.suffix.lower() in _ENDINGS:
            name = path.relative_to(scenes).as_posix()
            for key in (name, name[: -len(path.suffix)]):  # a key keeps its ending if names differ only there
                originals.setdefault(key, []).append(path)
    for mask in _files_in(masks):
        if mask.suffix == ".png":
            key = mask.relative_to(masks).as_posix()[: -len(".png")]
            yield key, mask, originals.get(key, [])


def _files_in(folder: pathlib.Path) -> list[pathlib.Path]:
    """Like a run: also behind links, each folder once, without hidden entries."""
    files, visited = [], set()
    for parent, folders, names in os.walk(folder, followlinks=True):
        facts = os.stat(parent)
        if (facts.st_dev, facts.st_ino) in visited:
            folders.clear()
            continue
        visited.add((facts.st_dev, facts.st_ino))
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        files += [pathlib.Path(parent, name) for name in names if not name.startswith(".")]
    return sorted(files)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        "python -m offramp.geotiff", description="Write a Cloud Optimised GeoTIFF for each mask of a run with --tile."
    )
    parser.add_argument("scenes", type=pathlib.Path, help="the run's --input, a folder of GeoTIFF files")
    parser.add_argument("masks", type=pathlib.Path, help="the run's --output, or its folder mask-png")
    parser.add_argument("cogs", type=pathlib.Path, help="folder for the results")
    given = parser.parse_args(argv)
    for folder in (given.scenes, given.masks):
        if not folder.is_dir():
            parser.error(f"'{folder}' is not a folder")
    if given.cogs.exists() and os.path.samefile(given.masks, given.cogs):
        parser.error(f"'{given.cogs}' has the run's masks. Give another folder for the results")
    written = kept = failed = 0
    pairs = list(_pairs(given.scenes, given.masks))
    if not pairs:
        print(
            f"'{given.masks}' has no masks (.png). Give the output of a run with --tile and --processor mask-png as the "
            "second folder",
            file=sys.stderr,
        )
    for key, mask, originals in pairs:
        cog = given.cogs / f"{key}.tif"
        try:
            if len(originals) != 1:
                raise BadArgument(
                    f"{len(originals)} TIFF files in {given.scenes} are named {key}. Call "
                    "offramp.geotiff.write_cog(mask, scene, cog) for it"
                )
            if cog.exists() and cog.stat().st_mtime_ns > max(mask.stat().st_mtime_ns, originals[0].stat().st_mtime_ns):
                _require_replaceable(cog)
                kept += 1
                continue
            write_cog(mask, originals[0], cog)
            written += 1
        except (BadArgument, OSError, RasterioError, ValueError) as problem:  # CRSError is a ValueError
            failed += 1
            print(f"{mask}: {problem}", file=sys.stderr)
    print(f"{written} written, {kept} newer than their masks, {failed} failed")
    return 1 if failed or not written + kept else 0


if __name__ == "__main__":
    sys.exit(main())
