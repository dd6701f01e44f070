"""
Cloud Optimised GeoTIFFs of the masks of a run with `--tile`, each with the position and projection of its original:

    python -m offramp.geotiff SCENES MASKS COGS

SCENES is the run's `--input`, a folder of GeoTIFF files. MASKS is its `--output`. COGS/KEY.tif is written for each mask
KEY.png, unless it is newer than the mask already.

Tested with rasterio 1.4.4. Importing this module imports rasterio; importing offramp does not.
"""

from __future__ import annotations

import argparse
import glob
import os
import pathlib
import sys
import tempfile
import warnings
from typing import Iterator, Sequence

from offramp._errors import BadArgument, LibraryNotFound

try:
    import rasterio  # type: ignore[import-not-found,unused-ignore]
    import rasterio.shutil  # type: ignore[import-not-found,unused-ignore]
    from rasterio.enums import ColorInterp  # type: ignore[import-not-found,unused-ignore]
    from rasterio.errors import NotGeoreferencedWarning, RasterioError  # type: ignore[import-not-found,unused-ignore]
    from rasterio.windows import Window  # type: ignore[import-not-found,unused-ignore]
except ImportError as problem:
    raise LibraryNotFound(f"offramp.geotiff needs rasterio: {problem}. Install it: pip install rasterio") from problem

__all__ = ["main", "write_cog"]

_ENDINGS = (".tif", ".tiff")
_BLOCK = 512  # pixels of a side; also of the COG's blocks
_SOFTWARE = {"TIFFTAG_SOFTWARE": "offramp.geotiff"}  # marks the files that may be replaced


def write_cog(mask: str | os.PathLike[str], original: str | os.PathLike[str], cog: str | os.PathLike[str]) -> None:
    """
    Writes the class ids of `mask`, a picture of the original's size, with its colours, as a Cloud Optimised GeoTIFF at
    the position of `original`. The file appears whole, by a rename. Overviews take the nearest pixel's class.

    Errors: BadArgument if `original` has no position or another size, or if `cog` exists and is not such a file.
    """
    target = pathlib.Path(cog)
    if target.exists() and not _is_ours(target):
        raise BadArgument(f"{target} exists and is not a file of offramp.geotiff. Give another path")
    target.parent.mkdir(parents=True, exist_ok=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotGeoreferencedWarning)  # a mask has no position of its own
        _write(mask, original, target)


def _is_ours(path: pathlib.Path) -> bool:
    try:
        with rasterio.open(path) as found:
            return bool(_SOFTWARE.items() <= found.tags().items())
    except RasterioError:
        return False


def _write(mask: str | os.PathLike[str], original: str | os.PathLike[str], target: pathlib.Path) -> None:
    with rasterio.open(original) as scene:
        if scene.crs is None or scene.transform.is_identity:
            raise BadArgument(f"{original} has no position: it lacks a coordinate reference system or a transform")
        with (
            rasterio.open(mask) as pixels,
            tempfile.TemporaryDirectory(prefix=".offramp-", dir=target.parent) as folder,
        ):
            if (pixels.width, pixels.height) != (scene.width, scene.height):
                raise BadArgument(
                    f"{mask} has {pixels.width} x {pixels.height} pixels, and {original} {scene.width} x {scene.height}"
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
                plain, made, driver="COG", compress="deflate", blocksize=_BLOCK, overview_resampling="nearest"
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
    """Like a run: also behind links, without hidden entries."""
    return sorted(map(pathlib.Path, glob.glob(f"{glob.escape(str(folder))}/**/*", recursive=True)))


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
            parser.error(f"{folder} is not a folder")
    written = kept = failed = 0
    for key, mask, originals in _pairs(given.scenes, given.masks):
        cog = given.cogs / f"{key}.tif"
        try:
            if len(originals) != 1:
                raise BadArgument(f"{len(originals)} TIFF files in {given.scenes} are named {key}")
            if cog.exists() and cog.stat().st_mtime_ns > mask.stat().st_mtime_ns:
                kept += 1
                continue
            write_cog(mask, originals[0], cog)
            written += 1
        except (BadArgument, OSError, RasterioError) as problem:
            failed += 1
            print(f"{mask}: {problem}", file=sys.stderr)
    print(f"{written} written, {kept} newer than their masks, {failed} failed")
    return 1 if failed or not written + kept else 0


if __name__ == "__main__":
    sys.exit(main())
