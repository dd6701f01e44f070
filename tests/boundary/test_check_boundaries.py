"""Twins of the boundary checks: each rule is crossed once in a small project of its own, and the same checker must say so."""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
CXX = os.environ.get("OFFRAMP_TEST_CXX") or "c++"
NINJA = os.environ.get("OFFRAMP_TEST_NINJA") or "ninja"
CMAKE = os.environ.get("OFFRAMP_TEST_CMAKE") or "cmake"
CUDA_INCLUDE = os.environ.get("OFFRAMP_TEST_CUDA_INCLUDE", "")


class Project(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix="offramp-boundary-")).resolve()
        self.addCleanup(shutil.rmtree, self.folder)

    def write(self, name, text=""):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def check(self, *arguments):
        """Exit status and standard error of the checker."""
        command = [sys.executable, HERE / "check_boundaries.py", "--source", self.folder, *arguments]
        done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
        self.assertNotIn("Traceback", done.stderr)
        return done.returncode, done.stderr

    def assert_clean(self, *arguments):
        self.assertEqual(self.check(*arguments), (0, ""))

    def assert_crossed(self, arguments, *words):
        status, said = self.check(*arguments)
        self.assertEqual(status, 1, said)
        for word in words:
            self.assertIn(word, said)


class Includes(Project):
    CROSSINGS = [
        ("common/base/error.hpp", '"producer/pool/slab_pool.hpp"', "knows no one else"),
        ("common/base/error.cpp", '"consumer/session/read_lease.hpp"', "knows no one else"),
        ("common/base/error.cpp", '"tests/support/manual_clock.hpp"', "knows no one else"),
        ("consumer/main.cpp", '"producer/broker/broker.hpp"', "knows only common/"),
        ("consumer/main.cpp", '"producer/device/device.hpp"', "knows only common/"),
        ("producer/main.cpp", '"consumer/processors/processor.hpp"', "only ladder/"),
        ("producer/ladder/rung.cpp", '"tests/support/manual_clock.hpp"', "knows no tests"),
        ("producer/runner/run/producer_parts.cpp", '"producer/ladder/rung_egress.hpp"', "is a program"),
        ("producer/main.cpp", '"producer/ladder/rung_egress.hpp"', "is a program"),
        ("producer/broker/broker.cpp", '"producer/device/device.hpp"', "no program"),
        ("producer/ledger/slab_ledger.cpp", '"producer/pool/slab_pool.hpp"', "may know ledger of its side"),
        ("producer/pool/slab_pool.cpp", '"producer/broker/broker.hpp"', "may know pool, ledger"),
        ("producer/device/device.hpp", '"producer/egress/egress_stream.hpp"', "may know device of its side"),
        ("producer/device/device.hpp", '"common/images/jpeg.hpp"', "for programs"),
        ("producer/device/device.hpp", '"common/numerics/foreground_score.hpp"', "kernels are the runner's"),
        ("producer/device/cpu_stream.cpp", '"producer/runner/kernels/cpu_kernels.hpp"', "no program"),
        ("producer/device/device.hpp", '"producer/runner/models/model.hpp"', "no program"),
        ("producer/egress/slab_filling.cpp", '"producer/runner/kernels/kernels.hpp"', "no program"),
        ("producer/egress/output_batch.hpp", '"producer/runner/models/model.hpp"', "no program"),
        ("producer/egress/output_batch.hpp", '"producer/runner/ingest/input_batch.hpp"', "no program"),
        ("producer/egress/slab_filling.cpp", '"producer/ladder/slab_place.hpp"', "no program"),
        ("producer/egress/egress_stream.hpp", '"common/settings/run_config.hpp"', "for programs"),
        ("consumer/session/consumer_loop.hpp", '"consumer/processors/processor.hpp"', "no program"),
        ("consumer/session/consumer_loop.cpp", '"consumer/worker/run_consumer.hpp"', "no program"),
        ("consumer/session/run_search.cpp", '"common/settings/run_config.hpp"', "for programs"),
        ("common/base/log.cpp", '"common/wire/slab_view.hpp"', "common/base/ may know base of"),
        ("common/numerics/enlargement.hpp", '"common/base/error.hpp"', "may know numerics of"),
        ("common/wire/slab_view.cpp", '"common/settings/run_config.hpp"', "may know wire, base of"),
        ("common/shm/run_objects.cpp", '"common/wire/messages.hpp"', "may know shm, base of"),
        ("common/safetensors/safetensors_file.cpp", '"common/wire/tensor_spec.hpp"', "may know safetensors, base of"),
        ("common/transport/endpoint.cpp", '"common/quarantine/payload_file.hpp"', "may know transport, base, shm, wire of"),
        ("common/quarantine/payload_file.cpp", '"common/shm/shared_region.hpp"', "may know quarantine, base, safetensors, wire of"),
        ("common/settings/run_config.cpp", '"common/images/file_list.hpp"', "may know settings, base, shm of"),
        ("common/images/image_decode.cpp", '"common/transport/ports.hpp"', "may know images, base, settings, wire of"),
        ("consumer/sinks/files/output_name.cpp", '"common/wire/slab_view.hpp"', "knows only common/base/"),
        ("consumer/sinks/http/http_sink.cpp", '"consumer/processors/processor.hpp"', "knows only common/base/"),
        ("producer/ladder/private_place.cpp", '"producer/runner/run/egress_strategy.hpp"', "only main and rung_egress know the runner"),
        ("producer/egress/slab_filling.hpp", '"producer/ledger/slab_ledger.hpp"', "only egress_run knows ledger and broker"),
        ("producer/egress/egress_run.cpp", '"producer/runner/report/run_report.hpp"', "no program"),
        ("common/abi/guarded.cpp", '"common/wire/tensor_spec.hpp"', "common/abi/ may know abi, base of"),
        ("common/abi/include/offramp/egress.hpp", '"common/base/error.hpp"', "installed headers include nothing of the tree"),
        ("producer/broker/broker.cpp", '"producer/runner/models/model.hpp"', "no program"),
        ("producer/broker/broker.hpp", '"producer/egress/egress_stream.hpp"', "may know broker, ledger, pool"),
        ("producer/runner/inference/inference.cpp", "<cuda_runtime.h>", "producer/runner/kernels/ only"),
        ("producer/runner/inference/inference.cpp", "<cuda.h>", "producer/runner/kernels/ only"),
        ("producer/device/cuda_stream.cpp", "<cuda_runtime_api.h>", "producer/runner/kernels/ only"),
        ("producer/device/driver_api.cpp", "<cuda.h>", "producer/runner/kernels/ only"),
        ("producer/runner/models/weights.cpp", "<cuda_runtime_api.h>", "producer/runner/kernels/ only"),
        ("producer/runner/models/weights.cpp", "<cuda/std/span>", "producer/runner/kernels/ only"),
        ("common/wire/tensor_spec.cpp", "<torch/torch.h>", "producer/runner/models/ only"),
        ("producer/runner/kernels/cast.cu", "<ATen/ATen.h>", "producer/runner/models/ only"),
        ("producer/device/device.hpp", "<c10/cuda/CUDAStream.h>", "producer/runner/models/ only"),
        ("producer/broker/broker.cpp", "<zmq.hpp>", "common/transport/ only"),
        ("consumer/processors/results/finish.cpp", "<sqlite3.h>", "consumer/sinks/sqlite/ only"),
        ("consumer/processors/results/finish.cpp", "<curl/curl.h>", "consumer/sinks/http/ only"),
        ("consumer/sinks/sqlite/sqlite_database.cpp", "<libpq-fe.h>", "consumer/sinks/postgres/ only"),
        ("consumer/sinks/parquet/vector_merge.cpp", "<arrow/api.h>", "parquet_module.cpp only"),
        ("consumer/main.cpp", "<zmq.h>", "common/transport/ only"),
        ("producer/pool/slab_pool.cpp", "<boost/interprocess/mapped_region.hpp>", "common/shm/ only"),
        ("producer/main.cpp", "<CLI/CLI.hpp>", "common/settings/ only"),
        ("common/settings/given_values.cpp", "<toml++/toml.h>", "common/settings/toml.cpp only"),
        ("consumer/processors/kernels.inl", '"kernels.hpp"', "start at the repository root"),
        ("consumer/main.cpp", '"../producer/main.hpp"', "start at the repository root"),
        ("consumer/main.cpp", "<consumer/../producer/main.hpp>", "start at the repository root"),
        ("consumer/main.cpp", "HEADER", "through the macro"),
    ]
    ALLOWED = [
        ("common/base/error.cpp", '"common/base/error.hpp"'),
        ("common/base/trace.cpp", "<nvtx3/nvToolsExt.h>"),
        ("common/shm/shared_region.cpp", "<boost/interprocess/mapped_region.hpp>"),
        ("common/transport/zmq_ports.cpp", "<zmq.hpp>"),
        ("common/settings/run_config.cpp", "<CLI/CLI.hpp>"),
        ("common/settings/toml.cpp", "<toml++/toml.h>"),
        ("consumer/main.cpp", '"common/wire/slab_view.hpp"'),
        ("producer/broker/broker.cpp", '"producer/ledger/slab_ledger.hpp"'),
        ("producer/egress/egress_run.cpp", '"producer/broker/broker_thread.hpp"'),
        ("common/abi/include/offramp/egress.hpp", "<offramp.h>"),
        ("producer/egress/slab_filling.hpp", '"producer/pool/fill_lease.hpp"'),
        ("producer/runner/inference/inference.hpp", '"producer/egress/output_sink.hpp"'),
        ("consumer/processors/processor.hpp", '"consumer/session/slab_processor.hpp"'),
        ("producer/runner/kernels/cast.cu", "<cuda_fp16.h>"),
        ("producer/runner/kernels/cpu_kernels.cpp", '"common/numerics/bfloat16_bits.hpp"'),
        ("producer/runner/transforms/output_transformer.cpp", '"producer/runner/kernels/kernels.hpp"'),
        ("producer/runner/models/plugins/encoder.cpp", "<ATen/ops/linear.h>"),
        ("producer/runner/models/plugins/encoder.cpp", "<c10/cuda/CUDAStream.h>"),
        ("producer/ladder/rung_egress.cpp", '"producer/runner/run/egress_strategy.hpp"'),
        ("producer/ladder/main.cpp", '"producer/runner/run/run_producer.hpp"'),
        ("producer/ladder/main.cpp", '"producer/ladder/rung_egress.hpp"'),
        ("producer/ladder/sequential.cpp", '"consumer/processors/processor.hpp"'),
        ("common/wire/slab_view.cpp", '"common/base/error.hpp"'),
        ("common/images/file_list.hpp", '"common/settings/run_config.hpp"'),
        ("consumer/sinks/http/http_sink.cpp", '"common/base/error.hpp"'),
        ("consumer/sinks/sqlite/output_database.cpp", '"consumer/sinks/files/durability.hpp"'),
        ("producer/ladder/blocking_egress.cpp", '"producer/egress/slab_filling.hpp"'),
        ("consumer/main.cpp", "<vector>"),
    ]

    def test_each_crossing_is_found_with_its_place(self):
        for name, included, words in self.CROSSINGS:
            with self.subTest(file=name, includes=included):
                path = self.write(name, f"// first line\n  #  include {included}\n")
                self.assert_crossed(["includes"], f"{name}:2", words)
                path.unlink()

    def test_what_is_allowed_passes(self):
        for name, included in self.ALLOWED:
            with self.subTest(file=name, includes=included):
                path = self.write(name, f"#include {included}\n")
                self.assert_clean("includes")
                path.unlink()

    def test_device_code_elsewhere_than_with_the_kernels_is_found(self):
        self.write("producer/runner/kernels/cast.cu")
        self.assert_clean("includes")
        for name in ("producer/device/copy.cu", "producer/egress/launch.cuh"):
            with self.subTest(file=name):
                path = self.write(name)
                self.assert_crossed(["includes"], f"{name}: device code lies under producer/runner/kernels/ only")
                path.unlink()

    def test_a_tree_without_sources_is_no_success(self):
        self.assert_crossed(["includes"], "no source files")

    def test_one_line_in_a_copy_of_the_real_tree_is_found(self):
        for folder in ("common", "producer", "consumer"):
            shutil.copytree(ROOT / folder, self.folder / folder)
        self.assert_clean("includes")
        header = self.folder / "common/base/error.hpp"
        header.write_text(header.read_text() + '#include "producer/pool/slab_pool.hpp"\n')
        self.assert_crossed(["includes"], "common/base/error.hpp:")


class Headers(Project):
    def test_a_header_in_no_set_is_found(self):
        known = self.write("common/base/known.hpp")
        dotted = self.write("producer/runner/run/defaults.hpp")
        self.write("common/base/known.cpp")
        listed = self.write("header_sets.txt", f"{known}\n{dotted.parent}/run/../defaults.hpp\n\n")
        self.assert_clean("--header-sets", listed, "headers")
        self.write("consumer/escaped.hpp")
        self.assert_crossed(["--header-sets", listed, "headers"], "consumer/escaped.hpp", "nothing compiles it alone")

    def test_a_tree_without_headers_is_no_success(self):
        self.assert_crossed(["--header-sets", self.write("header_sets.txt"), "headers"], "no headers")


class Objects(Project):
    """Compiles one file of common/ and one of consumer/ with ninja."""

    def build(self, common="", consumer="", includes=()):
        self.write("common/one.cpp", common + "int one;\n")
        self.write("consumer/two.cpp", consumer + "int two;\n")
        flags = " ".join(f"-isystem {folder}" for folder in includes)
        self.write("build/build.ninja", "rule cxx\n"
                   f"  command = {CXX} {flags} -I{self.folder} -MD -MF $out.d -c $in -o $out\n"
                   "  deps = gcc\n  depfile = $out.d\n"
                   "build common/one.o: cxx ../common/one.cpp\nbuild consumer/two.o: cxx ../consumer/two.cpp\n")
        subprocess.run([NINJA, "-C", str(self.folder / "build")], check=True, capture_output=True)
        return ["--build", self.folder / "build", "--ninja", NINJA, "objects"]

    def test_clean_objects_pass(self):
        self.write("common/own.hpp")
        self.assert_clean(*self.build('#include "common/own.hpp"\n', "#include <vector>\n"))

    def test_a_gpu_header_is_found_in_whatever_toolkit_it_lies(self):
        for place in ("nvidia/cu13/include/cuda_runtime.h", "usr/local/cuda/include/cuda_runtime.h", "usr/local/cuda-12.8/include/x.h",
                      "site-packages/torch/include/y.h", "elsewhere/ATen/core.h", "elsewhere/c10/macros.h"):
            with self.subTest(header=place):
                header = self.write("outside/" + place)
                arguments = self.build(consumer=f"#include <{header.name}>\n", includes=[header.parent])
                self.assert_crossed(arguments, "consumer/two.o", place)

    def test_a_gpu_header_behind_a_header_of_the_project_is_found(self):
        header = self.write("outside/nvidia/cu13/include/cuda_runtime.h")
        self.write("common/innocent.hpp", "#include <cuda_runtime.h>\n")
        self.assert_crossed(self.build(common='#include "common/innocent.hpp"\n', includes=[header.parent]), "common/one.o")

    @unittest.skipUnless(CUDA_INCLUDE, "this build has no CUDA Toolkit")
    def test_the_real_cuda_runtime_is_found(self):
        self.assert_crossed(self.build(common="#include <cuda_runtime.h>\n", includes=[CUDA_INCLUDE]), "common/one.o", "cuda_runtime.h")

    def test_the_projects_own_device_and_kernels_are_found(self):
        for header in ("producer/device/device.hpp", "producer/runner/kernels/kernels.hpp"):
            with self.subTest(header=header):
                self.write(header)
                self.assert_crossed(self.build(consumer=f'#include "{header}"\n'), f"/{header}")

    def test_nvtx_passes_wherever_it_lies(self):
        header = self.write("outside/nvidia/cu13/include/nvtx3/nvToolsExt.h")
        self.assert_clean(*self.build(common="#include <nvtx3/nvToolsExt.h>\n", includes=[header.parent.parent]))

    def test_a_checkout_in_a_folder_called_cuda_passes(self):
        self.folder = self.folder / "cuda"
        self.write("common/own.hpp")
        self.assert_clean(*self.build('#include "common/own.hpp"\n'))

    def test_a_build_without_objects_is_no_success(self):
        self.write("build/build.ninja", "rule none\n  command = true\n")
        self.assert_crossed(["--build", self.folder / "build", "--ninja", NINJA, "objects"], "nothing was checked")


class Needed(Project):
    def program(self, library):
        """A program that needs a library of this name."""
        source = self.write("empty.cpp", "int answer() { return 0; }\n")
        main = self.write("main.cpp", "int answer();\nint main() { return answer(); }\n")
        made, program = self.folder / library, self.folder / f"needs-{library}"
        if program.exists():
            return program
        subprocess.run([CXX, "-shared", "-fPIC", f"-Wl,-soname,{library}", source, "-o", made], check=True)
        subprocess.run([CXX, main, made, "-o", program], check=True)
        return program

    def arguments(self, consumer="libzmq.so.5", producer="libzmq.so.5"):
        return ["--consumer", self.program(consumer), "--producer", self.program(producer), "needed"]

    def test_gpu_libraries_of_a_consumer_are_found(self):
        for library in ("libcudart.so.13", "libcuda.so.1", "libtorch_cpu.so", "libc10.so", "libcublas.so.13", "libnvrtc.so.13"):
            with self.subTest(library=library):
                self.assert_crossed(self.arguments(consumer=library), library, "the consumer links no GPU library")

    def test_what_a_producer_does_not_write_to_is_found(self):
        for library in ("libcurl.so.4", "libcurl-gnutls.so.4", "libpq.so.5", "libsqlite3.so.0"):
            with self.subTest(library=library):
                self.assert_crossed(self.arguments(producer=library), library, "the producer links nothing that results are written to")

    def test_other_libraries_pass(self):
        for library in ("libzmq.so.5", "libcurl.so.4", "libpq.so.5", "libnuma.so.1"):
            self.assert_clean(*self.arguments(consumer=library))
        for library in ("libcudart.so.13", "libpng16.so.16", "libpqueue.so.1"):
            self.assert_clean(*self.arguments(producer=library))

    def test_what_is_no_program_is_no_success(self):
        program = self.program("libzmq.so.5")
        for broken in (self.write("text", "no program"), self.folder / "absent"):
            self.assert_crossed(["--consumer", broken, "--producer", program, "needed"], f"{broken}: readelf finds no")
            self.assert_crossed(["--consumer", program, "--producer", broken, "needed"], f"{broken}: readelf finds no")


class HeadersAlone(Project):
    """A small project with the real CMake functions, whose plain build must compile each header alone."""

    def build(self, header, private="#pragma once\n"):
        self.write("room/thing.hpp", header)
        self.write("room/inner.hpp", private)
        self.write("room/thing.cpp", '#include <string>\n#include "room/thing.hpp"\n')
        self.write("CMakeLists.txt", "cmake_minimum_required(VERSION 3.25)\nproject(twin CXX)\nset(CMAKE_CXX_STANDARD 20)\n"
                   "set(OFFRAMP_SANITIZER \"\")\n"
                   f"include({ROOT}/common/cmake/offramp_targets.cmake)\n"
                   "offramp_library(room SOURCES room/thing.cpp HEADERS room/thing.hpp)\n"
                   "offramp_private_headers(room_private HEADERS room/inner.hpp LINKS room)\n"
                   "offramp_compile_headers_alone()\n")
        build = self.folder / "build"
        configured = subprocess.run([CMAKE, "-G", "Ninja", f"-DCMAKE_MAKE_PROGRAM={NINJA}", f"-DCMAKE_CXX_COMPILER={CXX}", "-S",
                                     str(self.folder), "-B", str(build)], capture_output=True, text=True)
        self.assertEqual(configured.returncode, 0, configured.stderr)
        return subprocess.run([NINJA, "-C", str(build)], capture_output=True, text=True)

    def test_a_header_that_does_not_compile_alone_fails_the_build(self):
        self.assertEqual(self.build("#pragma once\n#include <string>\nstd::string thing();\n").returncode, 0)
        for name, public, private in (("thing", "#pragma once\nstd::string thing();\n", "#pragma once\n"),
                                      ("inner", "#pragma once\n", "#pragma once\nstd::string inner();\n")):
            with self.subTest(header=name):
                broken = self.build(public, private)
                self.assertNotEqual(broken.returncode, 0)
                self.assertRegex(broken.stdout, rf"FAILED: .*/{name}\.hpp")


if __name__ == "__main__":
    unittest.main()
