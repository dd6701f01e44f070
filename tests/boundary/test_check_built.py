"""
Twins of the boundary checks of builds: each breaks a rule once in a small project, built with ninja, and the real
checker must report it.
"""

import os
import subprocess
import unittest

from boundary_project import CXX, NINJA, ROOT, Project, rows

CUDA_INCLUDE = os.environ.get("OFFRAMP_TEST_CUDA_INCLUDE", "")
SHARED = "CMakeFiles/offramp_shared.dir/common/abi/log_inside"


class Objects(Project):
    """Compiles a file of each side, and further ones, with ninja."""

    def build(self, files=(), includes=()):
        """`files`: {object's name without .o: the header that it includes}, such as {"consumer/two": "<vector>"}."""
        objects = {"common/one": "<cstddef>", "consumer/two": "<cstddef>", "producer/three": "<cstddef>", **dict(files)}
        flags = " ".join(f"-isystem {folder}" for folder in includes)
        lines = [
            f"rule cxx\n  command = {CXX} {flags} -I{self.folder} -MD -MF $out.d -c $in -o $out\n  deps = gcc\n  depfile = $out.d\n"
        ]
        for number, (name, included) in enumerate(objects.items()):
            source = self.folder / f"sources/{number}.cpp"
            # unchanged sources are not recompiled
            if not source.exists() or source.read_text() != f"#include {included}\n":
                self.write(f"sources/{number}.cpp", f"#include {included}\n")
            lines.append(f"build {name}.o: cxx ../sources/{number}.cpp\n")
        self.write("build/build.ninja", "".join(lines))
        subprocess.run([NINJA, "-C", str(self.folder / "build")], check=True, capture_output=True)
        return ["--build", self.folder / "build", "--ninja", NINJA, "objects"]

    # (object, a header that it may read, a header that it may not read, why)
    CROSSINGS = rows("""
        common/base/a  common/base/error.hpp  producer/pool/slab_pool.hpp  common/ knows only itself
        common/base/a  common/base/error.hpp  tests/support/manual_clock.hpp  common/ knows only itself
        common/wire/a  common/base/error.hpp  common/shm/run_objects.hpp  common/wire/ knows base, wire of common/
        common/transport/a  common/shm/run_objects.hpp  common/dead_letters/payload_file.hpp
            common/transport/ knows base, shm, transport, wire
        common/app/images/a  common/shm/run_objects.hpp  common/transport/ports.hpp
            common/app/images/ knows app/images, app/settings, base, json, numerics, shm, wire
        consumer/worker/a  consumer/session/read_loan.hpp  producer/broker/broker.hpp  knows only common/
        consumer/session/a  common/transport/ports.hpp  consumer/processors/processor.hpp
            consumer/session/ is a library: it knows no program
        consumer/session/a  common/transport/ports.hpp  common/app/settings/run_config.hpp  common/app/ is for programs
        producer/runner/run/a  producer/egress/egress.hpp  consumer/session/read_loan.hpp
            only ladder/ may know consumers
        producer/runner/run/a  common/app/settings/run_config.hpp  producer/ladder/rung_egress.hpp
            no other folder may know ladder/
        producer/device/a  producer/device/device.hpp  producer/egress/egress.hpp
            producer/device/ is a library: it knows no program
        producer/pool/a  producer/ledger/slab_ledger.hpp  producer/broker/broker.hpp
            producer/pool/ is a library: it knows no program
        producer/broker/a  producer/ledger/slab_ledger.hpp  producer/runner/report/run_report.hpp
            producer/broker/ is a library: it knows no program
        producer/egress/a  producer/broker/broker.hpp  producer/runner/models/model.hpp
            producer/egress/ is a library: it knows no program
        producer/egress/a  producer/broker/broker.hpp  common/app/images/picture_list.hpp  common/app/ is for programs
        SHARED  producer/device/device.hpp  producer/runner/kernels/kernels.hpp  is made of libraries alone
        SHARED  consumer/session/read_loan.hpp  consumer/sinks/files/atomic_file.hpp  is made of libraries alone
        SHARED  common/abi/guarded.hpp  common/app/settings/run_config.hpp  is made of libraries alone
        SHARED  common/abi/guarded.hpp  common/app/program/own_process.hpp  is made of libraries alone
        SHARED  common/abi/guarded.hpp  producer/ladder/rung_egress.hpp  is made of libraries alone
    """)

    def test_each_crossing_is_found_behind_an_innocent_header(self):
        for place, allowed, forbidden, why in self.CROSSINGS:
            name = SHARED if place == "SHARED" else place
            with self.subTest(object=name, reads=forbidden):
                self.write(allowed, "#pragma once\n")
                self.write(forbidden, "#pragma once\n")
                self.assert_clean(*self.build({name: f'"{allowed}"'}))
                self.write(allowed, f'#pragma once\n#include "{forbidden}"\n')
                self.assert_crossed(self.build({name: f'"{allowed}"'}), f"{name}.o: has read /{forbidden}", why)
                self.write(allowed, "#pragma once\n")

    def test_the_ladder_may_know_both_sides(self):
        self.write("consumer/processors/processor.hpp")
        self.assert_clean(*self.build({"producer/ladder/a": '"consumer/processors/processor.hpp"'}))

    def test_a_gpu_header_is_found_in_any_toolkit(self):
        for place in (
            "nvidia/cu13/include/cuda_runtime.h",
            "usr/local/cuda/include/cuda_runtime.h",
            "usr/local/cuda-12.8/include/x.h",
            "site-packages/torch/include/y.h",
            "elsewhere/ATen/core.h",
            "elsewhere/c10/macros.h",
        ):
            header = self.write("outside/" + place)
            for name in ("common/a", "consumer/a", "producer/device/cuda_stream.cpp", "producer/egress/a", SHARED):
                with self.subTest(header=place, object=name):
                    self.assert_crossed(
                        self.build({name: f"<{header.name}>"}, [header.parent]),
                        f"{name}.o",
                        place,
                        "no CUDA and no LibTorch",
                    )

    def test_the_names_of_streams_and_the_runner_may_know_nvidias_types(self):
        header = self.write("outside/nvidia/cu13/include/cuda.h")
        for name in ("producer/device/stream_name.cpp", "producer/runner/kernels/a"):
            self.assert_clean(*self.build({name: "<cuda.h>"}, [header.parent]))

    @unittest.skipUnless(CUDA_INCLUDE, "this build has no CUDA Toolkit")
    def test_the_real_cuda_runtime_is_found(self):
        self.assert_crossed(
            self.build({"common/a": "<cuda_runtime.h>"}, [CUDA_INCLUDE]), "common/a.o", "cuda_runtime.h"
        )

    def test_nvtx_passes_in_any_folder(self):
        header = self.write("outside/nvidia/cu13/include/nvtx3/nvToolsExt.h")
        self.assert_clean(*self.build({"common/a": "<nvtx3/nvToolsExt.h>"}, [header.parent.parent]))

    def test_a_checkout_in_a_folder_called_cuda_passes(self):
        self.folder = self.folder / "cuda"
        self.write("common/base/own.hpp")
        self.assert_clean(*self.build({"common/base/a": '"common/base/own.hpp"'}))

    def test_a_build_without_objects_is_no_success(self):
        self.write("build/build.ninja", "rule none\n  command = true\n")
        self.assert_crossed(["--build", self.folder / "build", "--ninja", NINJA, "objects"], "nothing was checked")


class Archives(Project):
    LINKED = {"consumer": "bin/consumer", "producer": "bin/producer", "library": "lib/libofframp.so.0.1.0"}

    def arguments(self, **archives):
        """Arguments for programs that are linked from the given archives, by default from common/base/."""
        lines = ["rule link\n  command = touch $out\n"]
        for role, linked in self.LINKED.items():
            archive = archives.get(role, "common/base/libbase.a")
            first = f"CMakeFiles/{'offramp_shared' if role == 'library' else role}.dir/main.o"
            lines.append(f"build {linked}: link {first} | {archive}\n")
            self.write(f"build/{archive}")
            self.write(f"build/{first}")
        self.write("build/build.ninja", "".join(lines))
        roles = [word for role, linked in self.LINKED.items() for word in (f"--{role}", self.folder / "build" / linked)]
        return ["--build", self.folder / "build", "--ninja", NINJA, *roles, "archives"]

    def test_archives_of_a_programs_own_side_pass(self):
        self.assert_clean(
            *self.arguments(consumer="consumer/sinks/libsinks.a", producer="producer/runner/run/librun.a")
        )
        for archive in (
            "producer/egress/libegress.a",
            "consumer/session/libsession.a",
            "common/abi/CMakeFiles/abi.dir/guarded.cpp.o",
        ):
            self.assert_clean(*self.arguments(library=archive))

    def test_an_archive_of_another_program_is_found(self):
        for archive in ("producer/egress/libegress.a", "tests/support/libsupport.a"):
            self.assert_crossed(self.arguments(consumer=archive), f"bin/consumer: is linked from {archive}")
        for archive in (
            "consumer/session/libsession.a",
            "consumer/processors/libprocessors.a",
            "producer/ladder/libladder.a",
            "tests/support/libsupport.a",
        ):
            self.assert_crossed(self.arguments(producer=archive), f"bin/producer: is linked from {archive}")

    def test_an_archive_of_no_library_is_found_in_the_library(self):
        for archive in (
            "common/app/settings/libsettings.a",
            "common/app/images/libimages.a",
            "common/app/program/libprogram.a",
            "consumer/sinks/libsinks.a",
            "consumer/worker/libworker.a",
            "producer/runner/kernels/libkernels.a",
            "producer/ladder/libladder.a",
            "tests/support/libsupport.a",
        ):
            self.assert_crossed(
                self.arguments(library=archive),
                f"libofframp.so.0.1.0: is linked from {archive}",
                "is made of libraries alone",
            )

    def test_a_target_unknown_to_ninja_is_no_success(self):
        for role in self.LINKED:
            arguments = self.arguments()
            arguments[arguments.index(f"--{role}") + 1] = self.folder / "build/bin/absent"
            self.assert_crossed(arguments, "bin/absent: ninja knows nothing that it is linked from")


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

    def arguments(self, consumer="libzmq.so.5", producer="libzmq.so.5", library="libzmq.so.5"):
        return [
            "--consumer",
            self.program(consumer),
            "--producer",
            self.program(producer),
            "--library",
            self.program(library),
            "needed",
        ]

    def test_gpu_libraries_of_a_consumer_are_found(self):
        for library in (
            "libcudart.so.13",
            "libcuda.so.1",
            "libtorch_cpu.so",
            "libc10.so",
            "libcublas.so.13",
            "libnvrtc.so.13",
        ):
            with self.subTest(library=library):
                self.assert_crossed(self.arguments(consumer=library), library, "the consumer links no GPU library")

    def test_a_linked_library_that_must_be_opened_on_demand_is_found(self):
        for library in ("libcurl.so.4", "libpq.so.5", "libtiff.so.6", "libparquet.so.2100"):
            with self.subTest(library=library):
                self.assert_crossed(self.arguments(consumer=library), library, "opens it when it is asked for")

    def test_a_sink_library_of_a_producer_is_found(self):
        for library in ("libcurl.so.4", "libcurl-gnutls.so.4", "libpq.so.5", "libsqlite3.so.0"):
            with self.subTest(library=library):
                self.assert_crossed(
                    self.arguments(producer=library), library, "the producer links nothing that results are written to"
                )

    def test_a_producer_that_links_libtiff_is_found(self):
        self.assert_crossed(
            self.arguments(producer="libtiff.so.6"), "libtiff.so.6", "opens libtiff with the first TIFF"
        )

    def test_an_unexpected_dependency_of_the_library_is_found(self):
        for library in (
            "libcudart.so.13",
            "libcuda.so.1",
            "libtorch_cpu.so",
            "libcurl.so.4",
            "libpq.so.5",
            "libsqlite3.so.0",
            "libpng16.so.16",
            "libspdlog.so.1.10",
            "libfmt.so.9",
        ):
            with self.subTest(library=library):
                self.assert_crossed(
                    self.arguments(library=library),
                    f"needs {library}",
                    "the library needs libzmq and the system's own, and no other",
                )

    def test_other_libraries_pass(self):
        for library in ("libzmq.so.5", "libsqlite3.so.0", "libpqueue.so.1", "libnuma.so.1"):
            self.assert_clean(*self.arguments(consumer=library))
        for library in ("libcudart.so.13", "libpng16.so.16", "libpqueue.so.1"):
            self.assert_clean(*self.arguments(producer=library))
        self.assert_clean(*self.arguments(library="libasan.so.8"))

    def test_a_file_that_is_not_a_program_is_no_success(self):
        program = self.program("libzmq.so.5")
        for broken in (self.write("text", "no program"), self.folder / "absent"):
            for role in ("--consumer", "--producer", "--library"):
                roles = {"--consumer": program, "--producer": program, "--library": program, role: broken}
                self.assert_crossed(
                    [*(part for pair in roles.items() for part in pair), "needed"], f"{broken}: readelf finds no"
                )


class Symbols(Project):
    LISTED = ("offramp_open", "offramp_close")

    def arguments(self, exported=LISTED, declared=LISTED, listed=LISTED, hidden=(), calls=""):
        """A library with a version script like the real one's, its header and the golden list."""
        names = [*exported, *hidden]
        source = self.write(
            "library.cpp",
            "#include <csignal>\n#include <cstdio>\n#include <cstdlib>\n#include <iostream>\n#include <unistd.h>\n"
            + "".join(f'extern "C" int {name}() {{ {calls} return 0; }}\n' for name in names),
        )
        exports = "".join(f"{name}; " for name in exported)
        script = self.write("library.map", f"{{ {f'global: {exports}' if exports else ''}local: *; }};\n")
        library = self.folder / "libofframp.so"
        subprocess.run([CXX, "-shared", "-fPIC", f"-Wl,--version-script={script}", source, "-o", library], check=True)
        header = self.write(
            "offramp.h",
            "".join(f"OFFRAMP_API int {name}(void);\n" for name in declared) + "int offramp_of_nobody(void);\n",
        )
        golden = self.write("exported_symbols.txt", "".join(f"{name}\n" for name in listed))
        return ["--library", library, "--symbols", golden, "--abi-header", header, "symbols"]

    def test_the_list_passes_whatever_is_hidden(self):
        self.assert_clean(*self.arguments(hidden=["internal"]))

    def test_a_symbol_too_many_or_too_few_is_found_in_library_and_header(self):
        more, fewer = (*self.LISTED, "offramp_more"), self.LISTED[:1]
        self.assert_crossed(
            self.arguments(exported=more), "exports offramp_more, which exported_symbols.txt does not list"
        )
        self.assert_crossed(self.arguments(exported=(*self.LISTED, "internal")), "exports internal, which")
        self.assert_crossed(
            self.arguments(exported=fewer), "does not export offramp_close, which exported_symbols.txt lists"
        )
        self.assert_crossed(self.arguments(declared=more), "offramp.h: declares offramp_more, which")
        self.assert_crossed(self.arguments(declared=fewer), "offramp.h: does not declare offramp_close, which")
        self.assert_crossed(
            self.arguments(listed=fewer), "exports offramp_close, which", "declares offramp_close, which"
        )

    def test_a_call_that_disturbs_the_process_is_found(self):
        for calls, name in (
            ("std::abort();", "abort"),
            ("std::exit(1);", "exit"),
            ("::_exit(1);", "_exit"),
            ("std::raise(SIGTERM);", "raise"),
            ("::kill(::getpid(), SIGKILL);", "kill"),
            ("std::signal(SIGTERM, SIG_IGN);", "signal"),
            ('std::puts("a");', "puts"),
            ("std::cerr << 1;", "_ZSt4cerr"),
        ):
            with self.subTest(calls=name):
                self.assert_crossed(
                    self.arguments(calls=calls), f"libofframp.so: calls {name}: a library ends no process"
                )
        self.assert_clean(*self.arguments(calls='std::fprintf(stderr, "%d", 1);'))

    def test_a_library_without_symbols_is_no_success(self):
        self.assert_crossed(self.arguments(exported=(), hidden=["internal"]), "nm finds no symbol that it exports")
        arguments = self.arguments()
        arguments[1] = self.folder / "absent"
        self.assert_crossed(arguments, "nm finds no symbol that it exports")

    def test_the_real_header_declares_the_real_list(self):
        golden = ROOT / "tests/boundary/exported_symbols.txt"
        names = golden.read_text().split()
        self.assertEqual(sorted(names), names)
        arguments = self.arguments(exported=names)
        arguments[3], arguments[5] = golden, ROOT / "common/abi/include/offramp.h"
        self.assert_clean(*arguments)
