"""The group of consumers under another user: that user's group if it has no other members, else an unused one."""

import grp
import pwd
import types
import unittest
from unittest import mock

from offramp_launch import user as consumer_user
from offramp_launch.exit_code import ExitCode, LaunchError


def user(name, uid, gid):
    return types.SimpleNamespace(pw_name=name, pw_uid=uid, pw_gid=gid)


class ConsumerUserTest(unittest.TestCase):
    def are_shared(self, members):
        """Whether the groups of alice, with these members, and of nobody are shared."""
        alice = user("alice", 1000, 1000)
        users = [alice, user("bob", 1001, 1001), user("sync", 4, 65534), user("nobody", 65534, 65534)]
        with (
            mock.patch.object(consumer_user.pwd, "getpwall", return_value=users),
            mock.patch.object(consumer_user.grp, "getgrgid", return_value=types.SimpleNamespace(gr_mem=members)),
        ):
            return consumer_user.is_shared(alice), consumer_user.is_shared(users[-1])

    def test_detects_a_shared_group(self):
        self.assertEqual((False, True), self.are_shared([]))
        self.assertEqual((False, True), self.are_shared(["alice"]))
        self.assertEqual((True, True), self.are_shared(["alice", "bob"]))

    def test_the_groups_of_runs_are_unused(self):
        taken = {group.gr_gid for group in grp.getgrall()} | {each.pw_gid for each in pwd.getpwall()}
        for mapped, (begin, end) in (
            ("0 0 4294967295\n", (1 << 30, 1 << 31)),
            ("0 1000 1\n1 100000 65536\n", (61184, 65520)),
        ):
            found = {consumer_user.free_group(mapped) for _ in range(5)}
            self.assertTrue(all(begin <= number < end for number in found), found)
            self.assertFalse(found & taken)

    def test_skips_groups_of_processes(self):
        with mock.patch.object(consumer_user, "groups_of_processes", return_value=set(range(61184, 65519))):
            self.assertEqual(65519, consumer_user.free_group("0 0 65536\n", attempts=100_000))

    def test_without_a_free_number_it_is_refused_with_a_remedy(self):
        with self.assertRaises(LaunchError) as refused:
            consumer_user.free_group("0 0 1000\n")
        self.assertEqual(ExitCode.NOT_PERMITTED, refused.exception.code)
        self.assertIn("adduser --system --group", str(refused.exception))
