"""What docs/reliability.md names is there."""
import os
import re

TESTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def test_the_tests_that_the_page_names():
    with open(f"{TESTS}/../docs/reliability.md", encoding="utf-8") as f:
        page = f.read()
    named = [(path, name) for path, names in re.findall(r"(\w[\w/]*\.(?:py|c))(?:::\w+)?: ((?:`\w+`(?:, )?)+)", page)
             for name in re.findall(r"`(\w+)`", names)]
    assert len(named) > 40
    missing = []
    for path, name in named:
        try:
            with open(f"{TESTS}/{path}", encoding="utf-8") as f:
                if not re.search(rf"\b{name}\(", f.read()):
                    missing.append(f"{path}: {name}")
        except FileNotFoundError:
            missing.append(path)
    assert not missing
