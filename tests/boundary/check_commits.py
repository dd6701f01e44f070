"""
Fails if a new commit has a subject of more than 72 characters or with a semicolon.

    check_commits.py --source DIR [--since COMMIT]

New commits are those since --since, otherwise since the merge base with origin/main or main, otherwise the newest 20.
Older commits, without this file, are skipped. Exit status 77 (skip) without git, or in a shallow clone.
"""

import argparse
import subprocess
import sys

MOST_COLUMNS, NEWEST = 72, 20
RULE = "tests/boundary/check_commits.py"
SKIP = 77


def git(source, *words):
    """The command's output; None if it fails or git is missing."""
    try:
        done = subprocess.run(["git", "-C", str(source), *words], capture_output=True, text=True, check=False)
    except OSError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def why_skipped(source):
    if git(source, "rev-parse", "--is-shallow-repository") != "false":
        return "no git, no repository, or a shallow clone"
    if git(source, "rev-parse", "--show-prefix"):
        return "the sources are a folder of another repository"
    return ""


def beginning(source):
    """The commit at which the branch left main; None on main."""
    head = git(source, "rev-parse", "HEAD")
    bases = (git(source, "merge-base", "HEAD", branch) for branch in ("origin/main", "main"))
    return next((base for base in bases if base and base != head), None)


def new_commits(source, since):
    """(hash, subject), newest first, without commits older than the rule."""
    introduced = git(source, "log", "--diff-filter=A", "--format=%H", "--", RULE)
    if not introduced:
        return []
    ranges = [f"{since}..HEAD"] if since else [f"--max-count={NEWEST}", "HEAD"]
    log = git(source, "log", "--no-merges", "--format=%H %s", *ranges, f"^{introduced.splitlines()[-1]}")
    return [line.partition(" ")[::2] for line in (log or "").splitlines()]


def faults_of(subject):
    if len(subject) > MOST_COLUMNS:
        yield f"{len(subject)} characters, more than {MOST_COLUMNS}"
    if ";" in subject:
        yield "a semicolon: one topic per commit"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--source", required=True)
    parser.add_argument("--since", metavar="COMMIT")
    options = parser.parse_args()
    if reason := why_skipped(options.source):
        print(f"skipped: {reason}")
        return SKIP
    found = [
        f"{commit[:12]} '{subject}': {fault}"
        for commit, subject in new_commits(options.source, options.since or beginning(options.source))
        for fault in faults_of(subject)
    ]
    print("".join(f"{line}\n" for line in found), end="", file=sys.stderr)
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
