"""The set-up: Debian packages (with fakes of dpkg-query, apt-get, sudo and id), toolchain, skipped steps."""

import pathlib
import shutil
import subprocess

from stage import InFolder

from offramp_launch.setup import environment, toolchain
from offramp_launch.exit_code import ExitCode, LaunchError
from offramp_launch.places import Places

REPOSITORY = pathlib.Path(__file__).resolve().parents[3]


class PackagesTest(InFolder):
    """packages.sh sees only the fakes and the plain tools that it uses."""

    TOOLS = ("sh", "sed", "tr", "grep", "dirname", "readlink", "tail", "mkdir", "date", "env", "cat")

    def setUp(self):
        super().setUp()
        self.bin = self.folder / "bin"
        self.bin.mkdir()
        for tool in self.TOOLS:
            (self.bin / tool).symlink_to(shutil.which(tool))
        self.write(
            "dpkg-query",
            'shift 3; for p in "$@"; do [ "$p" = cmake ] || echo "installed $p"; done; echo "not-installed ninja-build"',
        )
        self.write("apt-get", f'echo "$DEBIAN_FRONTEND $*" >> {self.folder}/calls')
        self.write("id", "echo 0")

    def write(self, name, body):
        (self.bin / name).write_text(f"#!/bin/sh\n{body}\n")
        (self.bin / name).chmod(0o755)

    def packages(self, command, **variables):
        return subprocess.run(
            [REPOSITORY / "launch" / "packages.sh", command],
            capture_output=True,
            text=True,
            check=False,
            stdin=subprocess.DEVNULL,
            env={"PATH": str(self.bin), "OFFRAMP_BUILD_DIR": str(self.folder / "build"), **variables},
        )

    def calls(self):
        file = self.folder / "calls"
        return file.read_text().splitlines() if file.exists() else []

    def test_names_the_missing_packages(self):
        self.assertEqual("cmake\n", self.packages("missing").stdout)

    def test_installs_only_the_missing_packages(self):
        done = self.packages("install")
        self.assertEqual(0, done.returncode, done.stderr)
        update, install = self.calls()
        self.assertTrue(update.startswith("noninteractive") and update.endswith(" update"))
        self.assertTrue(install.endswith(" install -y --no-install-recommends cmake"), install)

    def test_runs_nothing_when_all_are_installed(self):
        self.write("dpkg-query", 'shift 3; for p in "$@"; do echo "installed $p"; done')
        done = self.packages("install")
        self.assertEqual((0, "", []), (done.returncode, done.stdout, self.calls()))

    def test_without_root_and_sudo_the_command_is_reported(self):
        self.write("id", "echo 1000")
        done = self.packages("install")
        self.assertEqual(ExitCode.NOT_PERMITTED, done.returncode)
        self.assertIn("apt-get update && apt-get install -y --no-install-recommends cmake", done.stderr)
        self.assertEqual([], self.calls())

    def test_uses_sudo_without_a_password(self):
        self.write("id", "echo 1000")
        self.write("sudo", '[ "$1" = -n ] && shift; exec "$@"')
        self.write("true", "exit 0")
        self.assertEqual(0, self.packages("install").returncode)
        self.assertEqual(2, len(self.calls()))

    def test_skips_sudo_with_a_password_without_a_terminal(self):
        self.write("id", "echo 1000")
        self.write("sudo", "exit 1")
        self.assertEqual(ExitCode.NOT_PERMITTED, self.packages("install").returncode)

    def test_shows_the_output_of_a_failed_apt(self):
        self.write("apt-get", "echo E: no such host; exit 100")
        done = self.packages("install")
        self.assertEqual(ExitCode.SYSTEM, done.returncode)
        self.assertIn("E: no such host", done.stderr)

    def test_another_distribution_gets_its_requirements(self):
        (self.bin / "dpkg-query").unlink()
        self.assertEqual(3, self.packages("missing").returncode)
        done = self.packages("install")
        self.assertEqual(ExitCode.SYSTEM, done.returncode)
        self.assertIn("libzmq3-dev", done.stderr)
        self.assertEqual(0, self.packages("install", OFFRAMP_SKIP_PACKAGES="1").returncode)

    def test_python_finds_the_same_packages(self):
        missing = environment.missing_packages(Places())
        self.assertTrue(
            missing is None or set(missing) <= set((REPOSITORY / "launch" / "packages-debian.txt").read_text().split())
        )


class ToolchainTest(InFolder):
    def setUp(self):
        super().setUp()
        self.places = Places(root=REPOSITORY, build=self.folder / "build")
        self.torch = self.folder / "site" / "torch"
        self.torch.mkdir(parents=True)

    def resolve(self, given, version="2.9.1+cu130", cuda="13.0"):
        facts = {"version": version, "cuda": cuda, "folder": str(self.torch)}
        return toolchain.resolve(self.places, given, describe=lambda *_: facts)

    def test_by_default_the_set_up_installs_everything(self):
        inputs = self.resolve(toolchain.Toolchain())
        self.assertIn(f"-DOFFRAMP_PYTHON={self.places.venv_python}", inputs.definitions)
        self.assertEqual(
            ("requirements-launch.txt", "requirements-torch.txt", "requirements-cuda.txt"), inputs.requirements
        )

    def test_a_given_toolchain_is_not_installed(self):
        inputs = self.resolve(toolchain.Toolchain(torch_dir="/t", cuda_dir="/c"))
        self.assertEqual(("requirements-launch.txt",), inputs.requirements)
        self.assertLessEqual({"-DOFFRAMP_TORCH_DIR=/t", "-DOFFRAMP_CUDA_DIR=/c"}, set(inputs.definitions))

    def test_uses_the_cuda_toolkit_of_a_given_python(self):
        toolkit = self.folder / "site" / "nvidia" / "cu13"
        for name in ("bin/nvcc", "include/cuda_runtime_api.h"):
            (toolkit / name).parent.mkdir(parents=True)
            (toolkit / name).touch()
        inputs = self.resolve(toolchain.Toolchain(python="/p"))
        self.assertIn(f"-DOFFRAMP_CUDA_DIR={toolkit}", inputs.definitions)
        self.assertIn(f"-DOFFRAMP_TORCH_DIR={self.torch}", inputs.definitions)
        self.assertEqual(("requirements-launch.txt",), inputs.requirements)

    def test_installs_nvcc_for_a_given_python_if_it_fits(self):
        self.assertIn("requirements-cuda.txt", self.resolve(toolchain.Toolchain(python="/p")).requirements)
        with self.assertRaisesRegex(LaunchError, "CUDA 12.6") as refused:
            self.resolve(toolchain.Toolchain(python="/p"), cuda="12.6")
        self.assertIn("--cuda-dir", str(refused.exception))

    def test_an_old_pytorch_is_refused_with_both_versions(self):
        with self.assertRaisesRegex(LaunchError, "2.6.0; 2.7 or later") as refused:
            self.resolve(toolchain.Toolchain(python="/p"), version="2.6.0")
        self.assertEqual(ExitCode.DEVICE_UNSUPPORTED, refused.exception.code)
        self.resolve(toolchain.Toolchain(python="/p"), version="2.10.0")

    def test_a_choice_is_kept_until_reset(self):
        given = str(self.folder)
        self.assertEqual("", toolchain.choose(self.places, {}, {}).cuda_dir)
        self.assertEqual(given, toolchain.choose(self.places, {"--cuda-dir": given}, {}).cuda_dir)
        self.assertEqual(given, toolchain.choose(self.places, {}, {}).cuda_dir)
        self.assertEqual("", toolchain.choose(self.places, {"--cuda-dir": "own"}, {}).cuda_dir)
        self.assertEqual("", toolchain.choose(self.places, {}, {}).cuda_dir)
        self.assertEqual(given, toolchain.choose(self.places, {}, {"OFFRAMP_CUDA_DIR": given}).cuda_dir)

    def test_a_missing_path_is_refused(self):
        with self.assertRaisesRegex(LaunchError, "--torch-dir: '/no/such' does not exist"):
            toolchain.choose(self.places, {"--torch-dir": "/no/such"}, {})

    def test_a_python_without_pytorch_is_refused(self):
        python = self.folder / "python"
        python.write_text('#!/bin/sh\necho \'{"error": "No module named torch"}\'\n')
        python.chmod(0o755)
        self.places.build.mkdir()
        with self.assertRaisesRegex(LaunchError, "has no PyTorch"):
            toolchain.resolve(self.places, toolchain.Toolchain(python=str(python)))


class RequirementsTest(InFolder):
    """The fake pip only records its arguments."""

    def setUp(self):
        super().setUp()
        self.places = Places(root=self.folder, build=self.folder / "build")
        self.places.launch.mkdir()
        (self.places.venv / "bin").mkdir(parents=True)
        self.places.venv_python.write_text(
            f'#!/bin/sh\necho "$*" >> {self.folder}/calls\nexit $(cat {self.folder}/code)\n'
        )
        self.places.venv_python.chmod(0o755)
        (self.folder / "code").write_text("0")
        for name in ("requirements-launch.txt", "requirements-test.txt"):
            (self.places.launch / name).write_text("rich\n")

    def install(self, *names):
        before = self.calls()
        environment.install_requirements(self.places, names)
        return self.calls()[len(before) :]

    def calls(self):
        file = self.folder / "calls"
        return file.read_text().splitlines() if file.exists() else []

    def test_installs_once_and_again_when_a_file_changes(self):
        self.assertEqual(1, len(self.install("requirements-launch.txt")))
        self.assertEqual([], self.install("requirements-launch.txt"))
        (added,) = self.install("requirements-launch.txt", "requirements-test.txt")
        self.assertNotIn("requirements-launch.txt", added)
        (self.places.launch / "requirements-launch.txt").write_text("rich>=14\n")
        self.assertEqual(1, len(self.install("requirements-launch.txt", "requirements-test.txt")))

    def test_a_failed_install_is_repeated_next_time(self):
        (self.folder / "code").write_text("1")
        with self.assertRaisesRegex(LaunchError, "failed with exit code 1"):
            self.install("requirements-launch.txt")
        (self.folder / "code").write_text("0")
        self.assertEqual(1, len(self.install("requirements-launch.txt")))
