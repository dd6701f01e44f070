import os
import tempfile
import unittest

from offramp_launch.exit_code import LaunchError
from offramp_launch.sink import hide_password, is_postgres, resolve, without_password


class SinkTest(unittest.TestCase):
    def test_removes_the_password_from_every_form(self):
        for sink, without, password in (
            ("postgres://u:secret@host/db", "postgres://u@host/db", "secret"),
            (
                "postgresql://u:s%40%2Fcret@h1:5432,h2/db?sslmode=require",
                "postgresql://u@h1:5432,h2/db?sslmode=require",
                "s@/cret",
            ),
            ("postgres://u:s?cret@host/db", "postgres://u@host/db", "s?cret"),
            ("postgres://:secret@host", "postgres://@host", "secret"),
            ("postgres:///db?host=/run/x&password=secret", "postgres:///db?host=/run/x", "secret"),
            ("postgres:///db?password=secret&host=/run/x", "postgres:///db?host=/run/x", "secret"),
            ("postgres:///db?password=secret", "postgres:///db", "secret"),
            ("host=/run/x password=secret dbname=d", "host=/run/x dbname=d", "secret"),
            (r"password = 'it\'s a secret' dbname=d", "dbname=d", "it's a secret"),
            ("dbname=d password=secret", "dbname=d", "secret"),
            ("password=first dbname=d password=secret", "dbname=d", "secret"),
            ("postgres:///db?password=first&password=secret", "postgres:///db", "secret"),
            ("postgres://u@host/db", "postgres://u@host/db", None),
            ("dbname=d passfile=/x", "dbname=d passfile=/x", None),
            ("postgres://u:@host/db", "postgres://u@host/db", ""),
            ("", "", None),
        ):
            self.assertEqual((without, password), without_password(sink), sink)

    def test_the_end_of_a_password_is_not_guessed(self):
        for sink in ("postgres://u:sec@ret@host/db", "postgres://u:sec/ret@host/db", "postgres://u:a/b?c@host/db"):
            with self.assertRaises(LaunchError) as refused:
                without_password(sink)
            self.assertNotIn("ret", str(refused.exception))
            self.assertIn("%40", str(refused.exception))

    def test_a_secret_without_an_environment_variable_is_refused(self):
        for sink in ("postgres://h/d?sslpassword=secret", "host=h sslpassword = secret"):
            with self.assertRaises(LaunchError) as refused:
                without_password(sink)
            self.assertNotIn("=secret", str(refused.exception))

    def test_moves_the_password_to_the_environment(self):
        for arguments, wanted in (
            (
                ["run", "--sink", "postgres://u:secret@h/d", "--batch", "8"],
                ["run", "--sink", "postgres://u@h/d", "--batch", "8"],
            ),
            (["--sink=postgres://u:secret@h/d"], ["--sink=postgres://u@h/d"]),
        ):
            environment = {"OFFRAMP_SINK": "postgres://u:overruled@h/d"}
            self.assertEqual(wanted, hide_password(arguments, environment))
            self.assertEqual("secret", environment["PGPASSWORD"])
        environment = {"OFFRAMP_SINK": "postgres://u:secret@h/d"}
        self.assertEqual(["--sinks", "x"], hide_password(["--sinks", "x"], environment))
        self.assertEqual({"OFFRAMP_SINK": "postgres://u@h/d", "PGPASSWORD": "secret"}, environment)
        config, environment = {"sink": "postgres://u:secret@h/d"}, {}
        self.assertEqual(["--sink", "postgres://u@h/d"], resolve(config, environment))
        self.assertEqual(({"sink": "postgres://u@h/d"}, {"PGPASSWORD": "secret"}), (config, environment))
        self.assertEqual([], resolve(config, environment))
        self.assertEqual([], resolve({}, environment))

    def test_detects_postgresql_sinks(self):
        for sink in ("postgres://h/d", "postgresql:///d", "host=/run/x dbname=d"):
            self.assertTrue(is_postgres(sink))
        for sink in ("", "mysql://h/d?a=b", "/some/folder", "embeddings.sqlite", "runs/lr=0.1/embeddings.sqlite"):
            self.assertFalse(is_postgres(sink))
        with tempfile.TemporaryDirectory(prefix="date=") as folder:
            before = os.getcwd()
            os.chdir(os.path.dirname(folder))
            self.addCleanup(os.chdir, before)
            self.assertFalse(is_postgres(os.path.basename(folder)))
