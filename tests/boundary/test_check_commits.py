"""Twins of the check of commit subjects, in small repositories."""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from check_commits import NEWEST, RULE, SKIP

HERE = Path(__file__).resolve().parent


def check(source, *more):
    done = subprocess.run(
        [sys.executable, HERE / "check_commits.py", "--source", source, *more], capture_output=True, text=True
    )
    return done.returncode, done.stdout + done.stderr


@unittest.skipIf(shutil.which("git") is None, "git is not installed")
class Subjects(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix="offramp-commits-")).resolve()
        self.addCleanup(shutil.rmtree, self.folder)
        self.git("init", "-q", "-b", "main")
        self.commit("an old subject; it may be longer than the rule allows, as it is older than the rule")
        self.commit("boundary: check commit subjects", RULE)

    def git(self, *words):
        names = {f"GIT_{who}_{what}": "a@b" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
        subprocess.run(
            ["git", *words],
            cwd=self.folder,
            check=True,
            capture_output=True,
            env={**os.environ, **names, "GIT_CONFIG_GLOBAL": os.devnull},
        )

    def commit(self, subject, file="file"):
        path = self.folder / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(subject)
        self.git("add", "-A")
        self.git("commit", "-q", "-m", subject)

    def test_short_subjects_and_older_commits_are_right(self):
        self.commit("a" * 72)
        self.assertEqual((0, ""), check(self.folder))

    def test_a_long_subject_and_a_semicolon_are_found(self):
        for subject, word in (("a" * 73, "73 characters"), ("one; two", "a semicolon")):
            with self.subTest(subject):
                self.commit(subject)
                status, printed = check(self.folder)
                self.assertEqual(1, status)
                self.assertIn(word, printed)

    def test_a_branch_is_checked_from_where_it_left_main(self):
        self.commit("one; two")
        self.git("checkout", "-q", "-b", "branch")
        self.commit("three")
        self.assertEqual((0, ""), check(self.folder))
        self.assertEqual(1, check(self.folder, "--since", "HEAD~2")[0])

    def test_on_main_the_newest_are_checked(self):
        self.commit("one; two")
        for number in range(NEWEST):
            self.commit(f"commit {number}")
        self.assertEqual((0, ""), check(self.folder))

    def test_a_shallow_clone_and_a_folder_without_git_are_skipped(self):
        with tempfile.TemporaryDirectory() as folder:
            self.git("clone", "-q", "--depth", "1", f"file://{self.folder}", f"{folder}/clone")
            Path(folder, "copy").mkdir()
            for name in ("clone", "copy"):
                status, printed = check(f"{folder}/{name}")
                self.assertEqual(SKIP, status, printed)
                self.assertIn("skipped: ", printed)
