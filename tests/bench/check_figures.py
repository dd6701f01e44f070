#!/usr/bin/env python3
"""
Checks every figure of the READMEs' measured sections against the field of tests/bench/measured/*.json that it comes from. Where each comes
from stands in figures.py.

    check_figures.py [ROOT]

A figure is any number outside `code`, but one that is part of a name (H200, bf16, W10). It has to be what its field rounds to, at the digits that it is
written with. A figure without a source is an error, as is a source without its figure. Exit code 1 if anything is wrong.
"""

import json
import pathlib
import re
import sys
from typing import NamedTuple

import revision_figures

ROOT = pathlib.Path(__file__).resolve().parents[2]
MEASURED = "tests/bench/measured"
FIGURE = re.compile(r"\d{4}-\d\d-\d\d|(?<![\w.,-])[+−]?\d+(?:,\d{3})*(?:\.\d+)?(?!\w)")
CODE = re.compile(r"```.*?```|`[^`]*`|!?\[[^\]]*\]\([^)]*\)", re.DOTALL)


class Block(NamedTuple):
    """A table's row, a list's entry or a paragraph, on one line."""
    line: int
    text: str

    def places(self):
        return FIGURE.finditer(CODE.sub(lambda code: "`" * len(code[0]), self.text))

    def figures(self):
        return [place[0] for place in self.places()]


class Figure(NamedTuple):
    """`wanted`: the number, or the text, that it is measured as. `step`: what it is rounded to; by default the last digit that is written."""
    text: str
    wanted: object
    step: float = None

    def wrong(self):
        """Why it is, or nothing."""
        if isinstance(self.wanted, str):
            return "" if self.text == self.wanted else f"{self.text} is {self.wanted} in what was measured"
        step = self.step or 10.0 ** -len(self.text.partition(".")[2])
        value = float(self.text.replace(",", "").replace("−", "-"))
        return "" if abs(value - self.wanted) <= step / 2 * (1 + 1e-9) else f"{self.text} is {self.wanted:.6g} in what was measured"


class Source(NamedTuple):
    """Where the figures of the block that begins so come from, in the order in which they are read."""
    begins: str
    figures: tuple


def blocks(text, headings):
    """Those of the sections of these names, without what stands in fences and above tables, and without tables that revision_figures.py makes."""
    found, lines, first, inside, fenced, made = [], [], 0, False, False, False

    def close():
        if lines:
            found.append(Block(first, " ".join(lines)))
        lines.clear()

    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("```"):
            fenced = not fenced
        made = line in (revision_figures.BEGIN, revision_figures.BEGIN_WITHOUT_GPU) or made and line != revision_figures.END
        if line.startswith("#") and not fenced:
            close()
            inside = line.lstrip("#").strip() in headings
        elif not inside or fenced or made or line.startswith(("```", "<!--")) or not line.strip():
            close()
        else:
            if line.startswith(("|", "- ", "* ", "![")):
                close()
            if not lines:
                first = number
            lines.append(line.strip())
    close()
    return found


def read_measured(root):
    """{name of the file without its ending: what stands in it}"""
    return {file.stem: json.loads(file.read_text()) for file in sorted(pathlib.Path(root, MEASURED).glob("*.json"))}


def check(document, text, headings, sources):
    """A list of what is wrong, one line each."""
    wrong, unused = [], list(sources)
    for block in blocks(text, headings):
        found = block.figures()
        fitting = [source for source in sources if block.text.startswith(source.begins)]
        where = f"{document}:{block.line}: {block.text[:60]}…"
        for source in fitting:
            if source in unused:
                unused.remove(source)
        if len(fitting) > 1:
            wrong.append(f"{where}: {len(fitting)} sources begin so")
        elif not fitting and found:
            wrong.append(f"{where}: no source says where its figures come from: {', '.join(found)}")
        elif fitting:
            wanted = fitting[0].figures
            if [figure.text for figure in wanted] != found:
                wrong.append(f"{where}: its figures are {', '.join(found)}; its source has {', '.join(figure.text for figure in wanted)}")
            wrong += [f"{where}: {figure.wrong()}" for figure in wanted if figure.wrong()]
    return wrong + [f"{document}: nothing begins with '{source.begins}', which figures.py has a source for" for source in unused]


def check_all(root):
    import figures
    import gpu_figures
    measured = read_measured(root)
    wrong = gpu_figures.check(measured, pathlib.Path(root, gpu_figures.PAGE).read_text())
    wrong += revision_figures.check(measured, pathlib.Path(root, revision_figures.PAGE).read_text())
    for document in figures.documents(measured):
        wrong += check(document.path, pathlib.Path(root, document.path).read_text(), document.headings, document.sources)
    return wrong


def main():
    wrong = check_all(sys.argv[1] if len(sys.argv) > 1 else ROOT)
    for line in wrong:
        print(line)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
