"""README's table of chapters says what is in the repository."""

import re

from workbench import ROOT

ROW = re.compile(
    r"^\| (?P<number>\d\d) \| \[(?P<title>.+)\]\((?P<link>\S+)\) \| (?P<minutes>\d+) "
    r"\| (?P<promotes>.+) \| (?P<exercises>\d+) \| (?P<mutants>\d+) \| (?P<on>.+) \|$",
    re.M,
)


def promoted(text: str) -> list[str]:
    return sorted(set(re.findall(r"^(?:#|//)\| promote (\S+)$", text, re.M)))


def test_the_table_of_chapters_is_that_of_the_sources():
    rows = {m["number"]: m for m in ROW.finditer((ROOT / "README.md").read_text())}
    sources = {p.name[:2]: p for p in sorted((ROOT / "solutions").glob("[0-9][0-9]_*.md"))}
    assert rows.keys() == sources.keys()
    for number, source in sources.items():
        row, text = rows[number], source.read_text()
        assert row["link"] == f"solutions/{source.stem}.ipynb"
        assert row["title"] == re.search(r'^ +title: "(.+)"$', text, re.M)[1]
        assert row["minutes"] == re.search(r"^ +minutes: (\d+)$", text, re.M)[1]
        assert re.findall(r"`(\S+)`", row["promotes"]) == promoted(text)
        exercises = re.findall(r"^(?:#|//)\| exercise \d+\.\d+ ", text, re.M)
        assert int(row["exercises"]) == len(exercises)
        mutants = list((ROOT / "tests/chapters/mutants" / source.stem).iterdir())
        assert int(row["mutants"]) == len([m for m in mutants if m.suffix in (".py", ".cu")])
