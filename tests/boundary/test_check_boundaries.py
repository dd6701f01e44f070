"""
Twins of the boundary checks: each breaks a rule once in a small project, and the real checker must report it. Twins for
builds are in test_check_built.py.
"""

import os
import shutil
import subprocess

from boundary_project import CXX, NINJA, ROOT, Project, rows

CMAKE = os.environ.get("OFFRAMP_TEST_CMAKE") or "cmake"


class Includes(Project):
    CROSSINGS = rows("""
        common/base/error.hpp  "producer/pool/slab_pool.hpp"  common/ knows only itself
        common/base/error.cpp  "consumer/session/read_loan.hpp"  common/ knows only itself
        common/base/error.cpp  "tests/support/manual_clock.hpp"  common/ knows only itself
        consumer/main.cpp  "producer/broker/broker.hpp"  knows only common/
        consumer/main.cpp  "producer/device/device.hpp"  knows only common/
        producer/main.cpp  "consumer/processors/processor.hpp"  only ladder/
        producer/ladder/rung_outputs.cpp  "tests/support/manual_clock.hpp"  knows no tests
        producer/runner/run/producer_parts.cpp  "producer/ladder/rung_egress.hpp"  is a program
        producer/main.cpp  "producer/ladder/rung_egress.hpp"  is a program
        producer/runner/inference/inference.hpp  "producer/pool/slab_exchange.hpp"
            offramp-producer uses the libraries through
        producer/runner/checkpoint/run_checkpoint.hpp  "producer/pool/slab_exchange.hpp"
            offramp-producer uses the libraries through
        producer/runner/report/run_report.cpp  "producer/broker/broker.hpp"  offramp-producer uses the libraries through
        producer/runner/run/producer_run.cpp  "producer/recovery/run_recovery.hpp"
            offramp-producer uses the libraries through
        producer/main.cpp  "producer/ledger/slab_ledger.hpp"  offramp-producer uses the libraries through
        producer/runner/run/egress_strategy.cpp  "producer/egress/egress_stream.hpp"
            offramp-producer uses the libraries through
        producer/runner/ingest/staging.cpp  "producer/device/cuda_stream.hpp"
            offramp-producer uses the libraries through
        producer/ladder/slab_place.hpp  "producer/pool/slab_pool.hpp"  offramp-ladder uses the libraries through
        producer/ladder/slab_place.cpp  "producer/broker/broker.hpp"  offramp-ladder uses the libraries through
        consumer/worker/consumer_program.cpp  "consumer/session/run_views.hpp"  through its doors
        consumer/processors/processor.hpp  "consumer/session/read_loan.hpp"  through its doors
        consumer/main.cpp  "consumer/session/consumer_session.hpp"  through its doors
        producer/ladder/sequential.cpp  "consumer/session/run_views.hpp"  through its doors
        producer/broker/broker.cpp  "producer/device/device.hpp"  no program
        producer/ledger/slab_ledger.cpp  "producer/pool/slab_pool.hpp"  may know ledger of its side
        producer/pool/slab_pool.cpp  "producer/broker/broker.hpp"  may know pool, ledger
        producer/device/device.hpp  "producer/egress/egress_stream.hpp"  may know device of its side
        producer/device/device.hpp  "common/app/images/jpeg.hpp"  for programs
        producer/device/device.hpp  "common/numerics/foreground_score.hpp"  kernels are the runner's
        producer/device/cpu_stream.cpp  "producer/runner/kernels/kernel_plans.hpp"  no program
        producer/device/device.hpp  "producer/runner/models/model.hpp"  no program
        producer/egress/slab_filling.cpp  "producer/runner/kernels/kernels.hpp"  no program
        producer/egress/output_batch.hpp  "producer/runner/models/model.hpp"  no program
        producer/egress/output_batch.hpp  "producer/runner/ingest/input_batch.hpp"  no program
        producer/egress/slab_filling.cpp  "producer/ladder/slab_place.hpp"  no program
        producer/egress/egress_stream.hpp  "common/app/settings/run_config.hpp"  for programs
        consumer/session/consumer_loop.hpp  "consumer/processors/processor.hpp"  no program
        consumer/session/consumer_loop.cpp  "consumer/worker/run_consumer.hpp"  no program
        consumer/session/run_search.cpp  "common/app/settings/run_config.hpp"  for programs
        consumer/session/consumer_loop.cpp  "common/app/program/own_process.hpp"  for programs
        common/base/log.cpp  "common/wire/slab_view.hpp"  common/base/ may know base of
        common/numerics/enlargement.hpp  "common/base/error.hpp"  may know numerics of
        common/wire/slab_view.cpp  "common/app/settings/run_config.hpp"  may know wire, base of
        common/shm/run_objects.cpp  "common/wire/messages.hpp"  may know shm, base of
        common/safetensors/safetensors_file.cpp  "common/wire/tensor_spec.hpp"  may know safetensors, base, json of
        common/transport/endpoint.cpp  "common/dead_letters/payload_file.hpp"  may know transport, base, shm, wire of
        common/dead_letters/payload_file.cpp  "common/shm/shared_region.hpp"
            may know dead_letters, base, json, safetensors, wire of
        common/transport/endpoint.cpp  "common/app/program/own_process.hpp"  may know transport, base, shm, wire of
        common/app/program/own_process.cpp  "common/app/settings/run_config.hpp"  may know app/program, base of
        common/app/settings/run_config.cpp  "common/app/images/picture_list.hpp"  may know app/settings, base, shm of
        common/app/images/image_decode.cpp  "common/transport/ports.hpp"
            may know app/images, base, json, app/settings, numerics, wire of
        consumer/sinks/files/output_name.cpp  "common/wire/slab_view.hpp"  knows only common/base/
        consumer/processors/processor.hpp  "consumer/sinks/postgres/postgres_ownership.hpp"  knows no database
        consumer/sinks/http/http_sink.cpp  "consumer/processors/processor.hpp"  knows only common/base/
        producer/ladder/slab_place.cpp  "producer/runner/run/egress_strategy.hpp"  rung_outputs know the runner
        producer/egress/slab_filling.hpp  "producer/ledger/slab_ledger.hpp"
            only egress_run, run_listeners, run_directory_lock and run_status know ledger, broker, status and recovery
        producer/egress/embedded_egress.cpp  "producer/broker/broker_thread.hpp"
            only egress_run, run_listeners, run_directory_lock and run_status know
        producer/egress/egress_stream.cpp  "producer/recovery/run_recovery.hpp"
            only egress_run, run_listeners, run_directory_lock and run_status know
        producer/egress/egress_run.cpp  "producer/runner/report/run_report.hpp"  no program
        common/abi/guarded.cpp  "common/wire/tensor_spec.hpp"  common/abi/ may know abi, base of
        common/abi/include/offramp/egress.hpp  "common/base/error.hpp"  installed headers include nothing of the tree
        producer/broker/broker.cpp  "producer/runner/models/model.hpp"  no program
        producer/broker/broker.cpp  "producer/recovery/run_recovery.hpp"  may know broker, ledger, pool
        producer/broker/broker.cpp  "producer/status/status_page.hpp"  may know broker, ledger, pool
        producer/status/status_page.cpp  "producer/egress/run_status.hpp"  may know status, ledger, broker
        producer/recovery/run_recovery.cpp  "producer/egress/egress_run.hpp"  may know recovery, ledger, pool, broker
        producer/recovery/run_recovery.cpp  "producer/runner/models/model.hpp"  no program
        producer/recovery/run_recovery.cpp  "common/app/settings/run_config.hpp"  for programs
        producer/broker/broker.hpp  "producer/egress/egress_stream.hpp"  may know broker, ledger, pool
        producer/runner/inference/inference.cpp  <cuda_runtime.h>  producer/runner/kernels/ only
        producer/runner/inference/inference.cpp  <cuda.h>  producer/runner/kernels/ only
        producer/device/cuda_stream.cpp  <cuda_runtime_api.h>  producer/runner/kernels/ only
        producer/device/driver_api.cpp  <cuda.h>  producer/runner/kernels/ only
        producer/runner/models/weights.cpp  <cuda_runtime_api.h>  producer/runner/kernels/ only
        producer/runner/models/weights.cpp  <cuda/std/span>  producer/runner/kernels/ only
        common/wire/tensor_spec.cpp  <torch/torch.h>  producer/runner/models/ only
        producer/runner/kernels/cast.cu  <ATen/ATen.h>  producer/runner/models/ only
        producer/device/device.hpp  <c10/cuda/CUDAStream.h>  producer/runner/models/ only
        producer/broker/broker.cpp  <zmq.hpp>  common/transport/ only
        consumer/processors/results/outputs_of_run.cpp  <sqlite3.h>  consumer/sinks/sqlite/ only
        consumer/processors/results/outputs_of_run.cpp  <curl/curl.h>  consumer/sinks/http/ only
        consumer/sinks/sqlite/sqlite_database.cpp  <libpq-fe.h>  consumer/sinks/postgres/ only
        consumer/sinks/parquet/parquet_library.cpp  <arrow/api.h>  parquet_rows_module.cpp only
        consumer/main.cpp  <zmq.h>  common/transport/ only
        producer/pool/slab_pool.cpp  <boost/interprocess/mapped_region.hpp>  common/shm/ only
        producer/main.cpp  <CLI/CLI.hpp>  common/app/settings/ only
        common/app/settings/given_values.cpp  <toml++/toml.h>  common/app/settings/toml.cpp only
        consumer/processors/kernels.inl  "kernels.hpp"  start at the repository root
        consumer/main.cpp  "../producer/main.hpp"  start at the repository root
        consumer/main.cpp  <consumer/../producer/main.hpp>  start at the repository root
        consumer/main.cpp  HEADER  through the macro
    """)
    ALLOWED = rows("""
        common/base/error.cpp  "common/base/error.hpp"
        common/base/trace.cpp  <nvtx3/nvToolsExt.h>
        common/shm/shared_region.cpp  <boost/interprocess/mapped_region.hpp>
        common/transport/zmq_ports.cpp  <zmq.hpp>
        common/app/settings/run_config.cpp  <CLI/CLI.hpp>
        common/app/settings/toml.cpp  <toml++/toml.h>
        consumer/main.cpp  "common/wire/slab_view.hpp"
        producer/broker/broker.cpp  "producer/ledger/slab_ledger.hpp"
        producer/egress/egress_run.hpp  "producer/broker/broker_thread.hpp"
        producer/egress/run_directory_lock.cpp  "producer/recovery/run_recovery.hpp"
        producer/egress/run_status.hpp  "producer/broker/broker_report.hpp"
        common/abi/include/offramp/egress.hpp  <offramp.h>
        producer/egress/slab_filling.hpp  "producer/pool/slab_exchange.hpp"
        producer/runner/inference/inference.hpp  "producer/egress/output_counters.hpp"
        consumer/processors/processor.hpp  "consumer/session/slab_processor.hpp"
        consumer/worker/consumer_program.cpp  "consumer/session/consumer_run.hpp"
        producer/runner/report/run_report.hpp  "producer/broker/broker_report.hpp"
        producer/runner/run/work_record.hpp  "producer/recovery/predecessor.hpp"
        producer/ladder/slab_place.hpp  "producer/pool/slab_exchange.hpp"
        consumer/session/consumer_run.cpp  "consumer/session/run_views.hpp"
        producer/runner/kernels/cast.cu  <cuda_fp16.h>
        producer/runner/kernels/cpu_kernels.cpp  "common/numerics/float16_bits.hpp"
        producer/runner/transforms/output_transformer.cpp  "producer/runner/kernels/kernels.hpp"
        producer/runner/models/plugins/encoder.cpp  <ATen/ops/linear.h>
        producer/runner/models/plugins/encoder.cpp  <c10/cuda/CUDAStream.h>
        producer/ladder/rung_egress.cpp  "producer/runner/run/egress_strategy.hpp"
        producer/ladder/main.cpp  "producer/runner/run/run_producer.hpp"
        producer/ladder/main.cpp  "producer/ladder/rung_egress.hpp"
        producer/ladder/sequential.cpp  "consumer/processors/processor.hpp"
        common/wire/slab_view.cpp  "common/base/error.hpp"
        common/app/images/picture_list.hpp  "common/app/settings/run_config.hpp"
        consumer/sinks/http/http_sink.cpp  "common/base/error.hpp"
        consumer/sinks/sqlite/output_database.cpp  "consumer/sinks/files/atomic_file.hpp"
        producer/ladder/rung_outputs.cpp  "producer/egress/slab_filling.hpp"
        consumer/main.cpp  <vector>
    """)

    def test_each_crossing_is_found_with_its_place(self):
        for name, included, words in self.CROSSINGS:
            with self.subTest(file=name, includes=included):
                path = self.write(name, f"// first line\n  #  include {included}\n")
                self.assert_crossed(["includes"], f"{name}:2", words)
                path.unlink()

    def test_allowed_includes_pass(self):
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
                self.assert_crossed(["includes"], f"{name}: device code belongs under producer/runner/kernels/ only")
                path.unlink()

    def test_only_its_room_recovers_a_run(self):
        for call in (
            "auto memory = RunMemory::adopt(names);",
            "return SlabLedger::adopt(memory, 2);",
            "parts.broker->adopt(slabs, {});",
            "return SlabPool::adopt(names, plan);",
        ):
            with self.subTest(call=call):
                for allowed in ("producer/recovery/run_recovery.cpp", "producer/pool/run_memory.cpp"):
                    self.write(allowed, call + "\n")
                self.assert_clean("includes")
                path = self.write("producer/runner/run/producer_run.cpp", "// its start\n" + call + "\n")
                self.assert_crossed(
                    ["includes"], "producer/runner/run/producer_run.cpp:2", "in producer/recovery/ only"
                )
                path.unlink()

    def test_a_librarys_words_name_no_flag(self):
        self.write("common/app/settings/exit_code.cpp", 'return "Run on the CPU with --device cpu";\n')
        self.write("producer/runner/run/defaults.cpp", 'throw ConfigError("--batch is 0");\n')
        self.write(
            "common/shm/shared_region.cpp",
            '"Enlarge /dev/shm: docker run --shm-size=SIZE (or --ipc=host)"\n--left; // and --batch, in a comment\n',
        )
        self.assert_clean("includes")
        for library in (
            "producer/egress/run_directory_lock.cpp",
            "consumer/session/run_search.cpp",
            "common/transport/endpoint.cpp",
            "common/dead_letters/payload_file.cpp",
            "common/base/log.cpp",
        ):
            with self.subTest(library=library):
                path = self.write(library, '// says\nthrow Error("no run", "Give another --run-dir");\n')
                self.assert_crossed(["includes"], f"{library}:2", "a library knows no program's flags")
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


class HeadersAlone(Project):
    """A small project with the real CMake functions, of which boundary.headers_alone compiles each header alone."""

    def build(self, header, private="#pragma once\n", source='#include <string>\n#include "room/thing.hpp"\n'):
        self.write("room/thing.hpp", header)
        self.write("room/inner.hpp", private)
        self.write("room/thing.cpp", source)
        self.write(
            "CMakeLists.txt",
            "cmake_minimum_required(VERSION 3.25)\nproject(twin CXX)\nset(CMAKE_CXX_STANDARD 20)\n"
            'set(OFFRAMP_SANITIZER "")\n'
            f"include({ROOT}/common/cmake/offramp_targets.cmake)\n"
            "offramp_library(room SOURCES room/thing.cpp HEADERS room/thing.hpp)\n"
            "offramp_private_headers(room_private HEADERS room/inner.hpp LINKS room)\n",
        )
        build = self.folder / "build"
        configured = subprocess.run(
            [
                CMAKE,
                "-G",
                "Ninja",
                f"-DCMAKE_MAKE_PROGRAM={NINJA}",
                f"-DCMAKE_CXX_COMPILER={CXX}",
                "-S",
                str(self.folder),
                "-B",
                str(build),
            ],
            capture_output=True,
            text=True,
        )
        self.assertEqual(configured.returncode, 0, configured.stderr)
        built = [NINJA, "-C", str(build), "all", "all_verify_interface_header_sets"]
        return subprocess.run(built, capture_output=True, text=True)

    def test_a_header_that_does_not_compile_alone_fails_the_build(self):
        self.assertEqual(self.build("#pragma once\n#include <string>\nstd::string thing();\n").returncode, 0)
        for name, public, private in (
            ("thing", "#pragma once\nstd::string thing();\n", "#pragma once\n"),
            ("inner", "#pragma once\n", "#pragma once\nstd::string inner();\n"),
        ):
            with self.subTest(header=name):
                broken = self.build(public, private)
                self.assertNotEqual(broken.returncode, 0)
                self.assertRegex(broken.stdout, rf"FAILED: .*/{name}\.hpp")
        with self.subTest("its own source includes it first, and shows it"):
            broken = self.build(
                "#pragma once\nstd::string thing();\n", source='#include "room/thing.hpp"\n#include <string>\n'
            )
            self.assertNotEqual(broken.returncode, 0)
            self.assertRegex(broken.stdout, r"FAILED: .*/thing\.cpp")
