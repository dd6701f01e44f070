"""Masks and boxes of a detection model in COCO's format: instances.py PICTURES OUTPUT writes OUTPUT/coco.json."""

import json
import pathlib
import sys

from pycocotools import mask


def save(slab):
    for sample, found in slab:
        instances = []
        for row, (left, top, right, bottom) in enumerate(found["boxes"].tolist()):
            run = mask.encode(found["masks"][row].copy(order="F"))  # the costly part
            each = {"id": 1000 * sample.item + row + 1, "image_id": sample.item, "iscrowd": 0}
            each |= {"category_id": int(found["labels"][row]), "score": float(found["scores"][row])}
            each |= {"bbox": [left, top, right - left, bottom - top], "area": int(mask.area(run))}
            instances.append(each | {"segmentation": {**run, "counts": run["counts"].decode()}})
        yield sample, {"size": found["masks"].shape[1:], "instances": instances}


if __name__ == "__main__":
    import offramp
    import torch
    import torchvision
    from mine import categories, model

    (pictures, output), processor = map(pathlib.Path, sys.argv[1:]), f"{__file__}:save"
    with offramp.Egress(output=output, processor=processor, slab_bytes="256MiB", slabs=4) as egress:
        for path in sorted(pictures.iterdir()):
            with torch.inference_mode():
                [found] = model([torchvision.io.decode_image(path, mode="RGB") / 255])
            found["masks"] = found["masks"][:, 0] > 0.5  # (instances, height, width)
            egress.submit({name: [tensor] for name, tensor in found.items()}, [path.name])
    coco = {"images": [], "annotations": [], "categories": categories}
    for record in map(json.loads, (output / "records.jsonl").open()):
        height, width = record["size"]
        coco["images"] += [{"id": record["item"], "file_name": record["key"], "height": height, "width": width}]
        coco["annotations"] += record["instances"]
    (output / "coco.json").write_text(json.dumps(coco))
