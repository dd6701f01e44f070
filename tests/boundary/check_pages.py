"""Fails when a page of the repository points to nothing, or is too long to be read.

    check_pages.py --source DIR links       every relative link, and every page or path of a room named in `code`, leads to a file
    check_pages.py --source DIR mentions    every page that a source file names is there, and every source file that one outside tests/ names
    check_pages.py --source DIR lengths     a folder's README has at most 15 lines, an index 60; a README has at most 100 columns, tables too,
                                            and any other page outside tables
    check_pages.py --source DIR decisions   the index of common/design/ names each decision once; each has its parts and at most 200 words
    check_pages.py --source DIR citations   every test in the last column of common/design/failure-matrix.md exists
    check_pages.py --source DIR answers     each row "find where ..." of a page names a `function()` in a `file`, which has it

Several checks may be named at once. Every fault is one line on standard error, and the exit status is 1. A check that
finds nothing to look at fails too.
"""

import argparse
import os
import re
import sys
from pathlib import Path

MOST_LINES, MOST_LINES_OF_AN_INDEX, MOST_COLUMNS, MOST_WORDS_OF_A_DECISION = 15, 60, 100, 200
INDEXES = {"common/design", "launch/guide", "tests", "tests/bench"}
LEFT_OUT = {"build", ".git", "__pycache__"}
SOURCES = {".hpp", ".cpp", ".cu", ".cuh", ".inl", ".h", ".c", ".py", ".cmake", ".txt", ".sh", ".pml", ".toml"}
LINK = re.compile(r"\]\(([^)\s]+)\)")
NAMED = re.compile(r"`((?:[\w.-]+/)*[\w.-]+\.md)`")
CODE = re.compile(r"`([^`]+)`")
ROOMS = ("common/", "producer/", "consumer/", "launch/", "tests/")
# A pattern, or a word in capitals that stands for a name.
PLACEHOLDER = re.compile(r"[*?<>{}\[\]…]|\b(?!README\b)[A-Z]{2,}\b")
MENTION = re.compile(r"(?<![\w./{}<-])((?:[\w-]+/)+[\w-]+\.md)\b")
MENTIONED_SOURCE = re.compile(rf"(?<![\w./{{}}<-])((?:{'|'.join(ROOMS)})(?:[\w-]+/)*[\w-]+\.(?:hpp|cpp|cuh?|inl|h|py|cmake))\b")
ASKED = re.compile(r"\| find (?:where|how|what) ")
ANSWER = re.compile(r"`(\w+)\(\)` in `([^`]+)`")
CITED = re.compile(r"`([\w.]+)`")
DESIGN, DECISIONS, MATRIX = Path("common/design"), Path("common/design/decisions"), Path("common/design/failure-matrix.md")


def files_under(source, suffixes):
    found = []
    for folder, folders, names in os.walk(source):
        folders[:] = [name for name in folders if name not in LEFT_OUT]
        found += [Path(folder, name) for name in names if Path(name).suffix in suffixes]
    return sorted(path for path in found if path.is_file())


def pages_of(source):
    return files_under(source, {".md"})


def prose(text):
    """(number, line) of all lines outside fences."""
    fenced = False
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("```"):
            fenced = not fenced
        elif not fenced:
            yield number, line


def anchors(page):
    """As GitHub makes them of headings."""
    headings = (line.lstrip("#").strip() for _, line in prose(page.read_text(encoding="utf-8")) if line.startswith("#"))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def is_there(source, path):
    """As a file or folder; without its suffix it stands for all files of that name."""
    named = source / path
    return named.exists() or any(named.parent.glob(named.name + ".*"))


def paths_in_code(line):
    """Words in `code` that begin like a path of a room, but for pages, which NAMED finds."""
    words = (word.rstrip(".,:;") for code in CODE.findall(line) for word in code.split())
    return [word for word in words if word.startswith(ROOMS) and not word.endswith(".md") and not PLACEHOLDER.search(word)]


def check_links(source):
    pages = pages_of(source)
    faults = [] if pages else [f"no pages under {source}"]
    for page in pages:
        for number, line in prose(page.read_text(encoding="utf-8")):
            where = f"{page.relative_to(source)}:{number}"
            for link in LINK.findall(re.sub(r"`[^`]*`(?!\])", "", line)):
                if re.match(r"\w+:", link):
                    continue
                path, _, anchor = link.partition("#")
                target = page.parent / path if path else page
                if not target.exists():
                    faults.append(f"{where}: the link {link} leads to nothing")
                elif anchor and anchor not in anchors(target):
                    faults.append(f"{where}: the link {link} leads to no heading of that page")
            for name in NAMED.findall(line):
                if "/" in name and not (source / name).exists() and not (page.parent / name).exists():
                    faults.append(f"{where}: there is no {name}")
            faults += [f"{where}: there is no {path}" for path in paths_in_code(line) if not is_there(source, path)]
    return faults


def check_mentions(source):
    files = files_under(source, SOURCES)
    faults = [] if files else [f"no source files under {source}"]
    for file in files:
        if file.name == "test_check_pages.py":    # names pages that are not there
            continue
        name_of_file = file.relative_to(source)
        patterns = [MENTION] if name_of_file.parts[0] == "tests" else [MENTION, MENTIONED_SOURCE]    # tests make sources of their own
        for number, line in enumerate(file.read_text(encoding="utf-8", errors="replace").splitlines(), 1):
            faults += [f"{name_of_file}:{number}: there is no {name}" for pattern in patterns for name in pattern.findall(line)
                       if not (source / name).exists() and not (file.parent / name).exists()]
    return faults


def check_lengths(source):
    pages = pages_of(source)
    faults = [] if any(page.parent != source for page in pages) else [f"no pages of folders under {source}"]
    for page in pages:
        name, lines = page.relative_to(source), page.read_text(encoding="utf-8").splitlines()
        readme = page.name == "README.md"
        most = MOST_LINES_OF_AN_INDEX if name.parent.as_posix() in INDEXES else MOST_LINES
        if readme and page.parent != source and len(lines) > most:
            faults.append(f"{name}: {len(lines)} lines, more than {most}: purpose, what may enter, the file to read first; the rest belongs on a page")
        faults += [f"{name}:{number}: {len(line)} columns, more than {MOST_COLUMNS}" for number, line in enumerate(lines, 1)
                   if len(line) > MOST_COLUMNS and (readme or not line.startswith("|"))]
    return faults


def check_decisions(source):
    pages = sorted((source / DECISIONS).glob("*.md"))
    if not pages:
        return [f"no decisions under {source / DECISIONS}"]
    index, faults = (source / DESIGN / "README.md").read_text(encoding="utf-8"), []
    for page in pages:
        name, text = f"{DECISIONS}/{page.name}", page.read_text(encoding="utf-8")
        named = index.count(f"(decisions/{page.name})")
        if named != 1:
            faults.append(f"{name}: is named {named} times in the index, not once")
        if len(text.split()) > MOST_WORDS_OF_A_DECISION:
            faults.append(f"{name}: {len(text.split())} words, more than {MOST_WORDS_OF_A_DECISION}")
        faults += [f"{name}: has no '{part}'" for part in ("**Decision.**", "**Forbids**") if part not in text]
    return faults


def has_test(source, name):
    """`room.part` is tests/**/room/test_part*.py or in the room's CMakeLists.txt; `Suite` or `Suite.Case` is a GoogleTest."""
    room, _, part = name.partition(".")
    if room[:1].isupper():
        case = re.compile(rf"\((?:{room}), *{part}")
        return any(case.search(file.read_text(encoding="utf-8")) for file in files_under(source / "tests", {".cpp"}))
    folders = [folder for folder in (source / "tests" / room, source / "tests/unit" / room) if folder.is_dir()]
    return any((folder / f"{part if part.startswith('test_') else 'test_' + part}.py").exists() or (folder / "CMakeLists.txt").is_file()
               and re.search(rf"\b{part}\b", (folder / "CMakeLists.txt").read_text(encoding="utf-8")) for folder in folders)


def check_citations(source):
    page = source / MATRIX
    rows = [(number, line) for number, line in prose(page.read_text(encoding="utf-8")) if line.startswith("|")] if page.is_file() else []
    cited = [(number, name) for number, row in rows for name in CITED.findall(row.rstrip(" |").rpartition("|")[2])]
    if not cited:
        return [f"no cited tests in {page}"]
    return [f"{MATRIX}:{number}: there is no test {name}" for number, name in cited if not has_test(source, name)]


def has_function(text, name):
    """Whether it declares or defines it, at the beginning of a line or as a member; a call is neither."""
    return re.search(rf"^(?: {{4}})?(?!return\b)\w[\w:<>,&* ]*[ :&*]{name}\(", text, re.MULTILINE) is not None


def check_answers(source):
    faults = []
    for page in pages_of(source):
        name_of_page = page.relative_to(source)
        for number, row in prose(page.read_text(encoding="utf-8")):
            if not ASKED.match(row):
                continue
            answers = ANSWER.findall(row)
            if not answers:
                faults.append(f"{name_of_page}:{number}: names no `function()` in `file`")
            for name, path in answers:
                file = source / path
                if not file.is_file():
                    faults.append(f"{name_of_page}:{number}: there is no {path}")
                elif not has_function(file.read_text(encoding="utf-8"), name):
                    faults.append(f"{name_of_page}:{number}: {path} has no {name}()")
    return faults


CHECKS = {"links": check_links, "mentions": check_mentions, "lengths": check_lengths, "decisions": check_decisions,
          "citations": check_citations, "answers": check_answers}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--source", type=Path, required=True)
    parser.add_argument("checks", nargs="+", choices=CHECKS)
    arguments = parser.parse_args()
    faults = [fault for name in arguments.checks for fault in CHECKS[name](arguments.source)]
    for fault in faults:
        print(fault, file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
