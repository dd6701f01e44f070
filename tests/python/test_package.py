"""The package without a run: how it finds and checks the library, and its dependencies."""

import ctypes
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import types
import unittest
import unittest.mock

import offramp
from offramp import _abi, _arrays, _dtypes, _errors, _host, _library, _packages
from world import ROOT

HEADER = ROOT / "common" / "abi" / "include" / "offramp.h"
PROCESSOR_HEADER = HEADER.with_name("offramp_processor.h")
COMPILER = os.environ.get("OFFRAMP_TEST_CC") or shutil.which("cc")


def layout_by(compiler, structs):
    """The size of each struct, and the offset and size of each field, according to the header."""
    lines = []
    for name, fields in structs.items():
        lines.append(f'printf("{name} %zu\\n", sizeof({name}));')
        lines += [
            f'printf("{name}.{field} %zu %zu\\n", offsetof({name}, {field}), sizeof((({name}*)0)->{field}));'
            for field in fields
        ]
    with tempfile.TemporaryDirectory() as folder:
        source = pathlib.Path(folder, "layout.c")
        source.write_text(
            "#include <offramp_processor.h>\n#include <stdio.h>\nint main(void) {\n"
            + "\n".join(lines)
            + "\nreturn 0;\n}\n"
        )
        subprocess.run([compiler, f"-I{HEADER.parent}", str(source), "-o", f"{folder}/layout"], check=True)
        return subprocess.run([f"{folder}/layout"], check=True, capture_output=True, text=True).stdout.splitlines()


def layout_of(structs):
    lines = []
    for name, struct in structs.items():
        lines.append(f"{name} {ctypes.sizeof(struct)}")
        lines += [
            f"{name}.{field} {getattr(struct, field).offset} {getattr(struct, field).size}"
            for field, _ in struct._fields_
        ]
    return lines


def fields_in_header(header=HEADER):
    """Names of the fields of each struct, in order."""
    text = re.sub(r"/\*.*?\*/", "", header.read_text(), flags=re.DOTALL)
    found = {}
    for body, name in re.findall(r"typedef struct \w+ \{(.*?)\} (\w+);", text, flags=re.DOTALL):
        found[name] = []
        for declaration in body.split(";"):
            if pointer := re.search(r"\(\*(\w+)\)", declaration):
                found[name].append(pointer[1])
            else:
                found[name] += [
                    re.search(r"(\w+)\s*(\[\d+\])?\s*$", one)[1] for one in declaration.split(",") if one.strip()
                ]
    return found


class Abi(unittest.TestCase):
    @unittest.skipUnless(COMPILER, "skipped: no C compiler")
    def test_every_struct_matches_the_header(self):
        fields = fields_in_header()
        self.assertEqual(set(fields), set(_abi.STRUCTS))
        self.assertEqual(layout_by(COMPILER, fields), layout_of(_abi.STRUCTS))
        fields = fields_in_header(PROCESSOR_HEADER)
        self.assertEqual(set(fields), set(_host.STRUCTS))
        self.assertEqual(layout_by(COMPILER, fields), layout_of(_host.STRUCTS))

    @unittest.skipUnless(COMPILER, "skipped: no C compiler")
    def test_a_missing_field_is_detected(self):
        class Sample(ctypes.Structure):
            _fields_ = _abi.Sample._fields_[:-1]

        self.assertNotEqual(
            layout_by(COMPILER, {"offramp_sample": fields_in_header()["offramp_sample"]}),
            layout_of({"offramp_sample": Sample}),
        )

    def test_every_call_of_the_header_is_declared(self):
        text = re.sub(r"/\*.*?\*/", "", HEADER.read_text(), flags=re.DOTALL)
        declared = dict(re.findall(r"^OFFRAMP_API\b[^;{]*?\b(offramp_\w+)\s*\(([^;]*)\);", text, flags=re.MULTILINE))
        self.assertEqual(
            {name: 0 if arguments == "void" else arguments.count(",") + 1 for name, arguments in declared.items()},
            {name: len(call) - 1 for name, call in _abi.CALLS.items()},
        )

    def test_every_code_of_the_header_has_a_class(self):
        codes = {
            int(code) for code in re.findall(r"^    OFFRAMP_\w+ = (\d+)", HEADER.read_text(), flags=re.MULTILINE)
        } - {0}
        self.assertGreater(len(codes), 15)
        for code in codes:
            problem = _errors.error_of(code, "why")
            self.assertEqual((code, "why"), (problem.code, str(problem)))
            self.assertIs(getattr(offramp, type(problem).__name__), type(problem))
            self.assertEqual(
                {"SystemFailure": "System", "Reject": "Rejected"}.get(
                    type(problem).__name__, type(problem).__name__
                ).lower(),
                _library.library().offramp_code_name(code).decode().replace("OFFRAMP_", "").replace("_", "").lower(),
            )
        self.assertIsInstance(_errors.error_of(12345, "why"), offramp.Internal)
        self.assertIsInstance(_errors.error_of(2, "why"), TimeoutError)
        self.assertIsInstance(_errors.error_of(64, "why"), ValueError)
        self.assertIsInstance(_errors.error_of(80, "why"), MemoryError)

    def test_types_have_one_name_and_one_code_each(self):
        self.assertEqual(len({(each.code, each.bits) for each in _dtypes.ALL}), len(_dtypes.ALL))
        for each in _dtypes.ALL:
            self.assertEqual(each, _dtypes.dtype_of(each.name))
            self.assertEqual(each, _dtypes.dtype_of_codes(each.code, each.bits))
        with self.assertRaisesRegex(offramp.BadArgument, "complex64.*Convert them"):
            _dtypes.dtype_of("complex64")


class FakeTensor:
    """The attributes of a PyTorch tensor on a GPU."""

    layout, dtype, shape, is_nested, is_quantized, requires_grad = (
        "torch.strided",
        "torch.bfloat16",
        (2, 3),
        False,
        False,
        False,
    )
    device = types.SimpleNamespace(type="cuda", index=1)

    def __init__(self, address=0x1000):
        self.address = address

    def data_ptr(self):
        return self.address

    def is_contiguous(self):
        return True

    def untyped_storage(self):
        return types.SimpleNamespace(nbytes=lambda: 12)

    def numel(self):
        return 6

    def storage_offset(self):
        return 0

    def is_inference(self):
        return True

    def is_neg(self):
        return False

    is_conj = is_neg

    def clone(self, memory_format):
        return FakeTensor(0x2000)


class OnADevice(unittest.TestCase):
    """Tensor descriptions for the library, checked without it."""

    def setUp(self):
        self.capturing = False
        self.current = types.SimpleNamespace(cuda_stream=0x77)
        cuda = types.SimpleNamespace(
            is_current_stream_capturing=lambda: self.capturing, current_stream=self.current_stream
        )
        patch = unittest.mock.patch.dict(sys.modules, torch=types.SimpleNamespace(cuda=cuda, contiguous_format=None))
        patch.start()
        self.addCleanup(patch.stop)

    def current_stream(self, device):
        self.assertEqual(1, device.index)
        return self.current

    def test_a_tensor_is_at_its_address(self):
        tensor = FakeTensor()
        outputs = _arrays.outputs_of("logits", tensor, False)
        self.assertEqual(
            (tensor, 0x1000, "bfloat16", (2, 3), "cuda:1"),
            (outputs.owner, outputs.address, outputs.dtype.name, *outputs[3:5]),
        )
        copied = _arrays.outputs_of("logits", tensor, True)
        self.assertEqual((0x2000, 0x2000), (copied.address, copied.owner.address), "it is the copy that is held")

    def test_the_stream_is_the_given_or_the_current_one(self):
        outputs = [_arrays.outputs_of("logits", FakeTensor(), False)]
        for given, handle in (
            (None, 0x77),
            (5, 5),
            (0, None),
            (types.SimpleNamespace(cuda_stream=6), 6),
            (types.SimpleNamespace(ptr=8), 8),
        ):
            self.assertEqual(handle, _arrays.stream_of(given, outputs))
        for given in ("legacy", -1, True, 1.5):
            with self.subTest(given), self.assertRaisesRegex(offramp.BadArgument, "Give a torch.cuda.Stream"):
                _arrays.stream_of(given, outputs)
        self.current.cuda_stream = 0
        self.assertIsNone(_arrays.stream_of(None, outputs), "the legacy stream")
        self.capturing = True
        with self.assertRaisesRegex(offramp.BadArgument, "is being captured"):
            _arrays.stream_of(None, outputs)


NEEDED = {
    "import offramp.anemoi": "offramp.anemoi needs anemoi-inference: No module named 'anemoi'. Install it: pip install anemoi-inference",
    "import offramp; offramp.Dataset": "offramp.Dataset needs PyTorch: No module named 'torch'. Install it: pip install torch",
    "import offramp.geotiff": "offramp.geotiff needs rasterio: No module named 'rasterio'. Install it: pip install rasterio",
    "import offramp.lightning": "offramp.lightning needs lightning: No module named 'lightning'. Install it: pip install lightning",
    "import offramp.nnunet": "offramp.nnunet needs nnunetv2: No module named 'numpy'. Install it: pip install nnunetv2",
    "import offramp.ray": "offramp.ray needs ray: No module named 'ray'. Install it: pip install ray",
    "import offramp.speculators": "offramp.speculators needs speculators: No module named 'hs_connectors'. Install it: pip install speculators",
    "import offramp.vllm": "offramp.vllm needs vllm: No module named 'torch'. Install it: pip install vllm",
    "import offramp.zarr; offramp.zarr.create('all.zarr', 'a', [1], 'uint8', ['x'])": "offramp.zarr needs zarr: No module named 'zarr'. Install it: pip install 'zarr>=3.1.2'",
}


class Packages(unittest.TestCase):
    def test_a_missing_package_is_one_error_that_names_it(self):
        for program, message in NEEDED.items():
            with self.subTest(program), tempfile.TemporaryDirectory() as folder:
                # -S: the standard library alone
                done = subprocess.run(
                    [sys.executable, "-S", "-c", program], cwd=folder, capture_output=True, text=True, check=False
                )
                self.assertEqual(f"offramp._errors.LibraryNotFound: {message}", done.stderr.rstrip().split("\n")[-1])
                self.assertEqual(1, done.stderr.count("Traceback"), done.stderr)

    def test_an_unsuitable_package_is_to_be_updated(self):
        with self.assertRaisesRegex(
            ImportError, r"^M needs another json: cannot import .* pip install --upgrade json$"
        ):
            with _packages.needs("M", "json"):
                from json import nothing  # noqa: F401


class Finding(unittest.TestCase):
    def python(self, program, **environment):
        kept = {name: value for name, value in os.environ.items() if name not in ("OFFRAMP_LIBRARY", "LD_LIBRARY_PATH")}
        done = subprocess.run(
            [sys.executable, "-c", program], env={**kept, **environment}, capture_output=True, text=True, check=False
        )
        return done.stdout + done.stderr.strip().rpartition("\n")[2]

    def test_importing_it_imports_only_the_standard_library(self):
        printed = self.python(
            "import sys, offramp; print([name for name in sys.modules if name.partition('.')[0] in ('numpy', 'torch', 'ml_dtypes')])"
        )
        self.assertEqual("[]\n", printed)

    def test_the_variable_names_the_only_place(self):
        printed = self.python("import offramp; offramp.library_version()", OFFRAMP_LIBRARY="/nowhere/libofframp.so")
        self.assertIn("LibraryNotFound", printed)
        self.assertIn("/nowhere/libofframp.so: cannot open", printed)
        self.assertIn("set OFFRAMP_LIBRARY", printed)

    def test_it_is_found_beside_the_package_and_by_the_loader(self):
        real = pathlib.Path(_library.library()._name).resolve()
        program = "import offramp; offramp.library_version(); print(offramp._library.library()._name)"
        with tempfile.TemporaryDirectory() as folder:
            copied = pathlib.Path(folder, "site", "offramp")
            shutil.copytree(pathlib.Path(offramp.__file__).parent, copied)
            site = {"PYTHONPATH": str(copied.parent)}
            self.assertIn("LibraryNotFound", self.python(program, **site))
            elsewhere = pathlib.Path(folder, "lib")
            elsewhere.mkdir()
            (elsewhere / _library.NAME).symlink_to(real)
            self.assertEqual(f"{_library.NAME}\n", self.python(program, LD_LIBRARY_PATH=str(elsewhere), **site))
            (copied / _library.NAME).symlink_to(real)
            self.assertEqual(f"{copied / _library.NAME}\n", self.python(program, **site))

    @unittest.skipUnless(COMPILER, "skipped: no C compiler")
    def test_another_versions_library_is_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            for version, reason in (
                ("7.1.0", "is version 7.1.0, and the package offramp is"),
                (offramp.__version__, "lacks a call"),
            ):
                other = pathlib.Path(folder, f"{version}.so")
                source = f'const char* offramp_version(void) {{ return "{version}"; }}'
                subprocess.run(
                    [COMPILER, "-shared", "-fPIC", "-x", "c", "-", "-o", str(other)],
                    input=source,
                    text=True,
                    check=True,
                )
                self.assertIn(
                    reason, self.python("import offramp; offramp.library_version()", OFFRAMP_LIBRARY=str(other))
                )
