"""What is known to fail, with reasons: expectations.json. A listed check that passes is an error, too."""

from __future__ import annotations

import json
import pathlib

FILE = pathlib.Path(__file__).with_name("expectations.json")


def load(path=FILE):
    """{(kind, name, dtype, check): reason} from [{"reason", "kind", "entries": {name: {check: [dtypes]}}}]."""
    known = {}
    for group in json.loads(path.read_text()):
        for name, checks in group["entries"].items():
            for check, dtypes in checks.items():
                for dtype in dtypes:
                    key = (group["kind"], name, dtype, check)
                    if key in known:
                        raise ValueError(f"{path.name} lists {key} twice")
                    known[key] = group["reason"]
    return known


def judge(results, known):
    """(unexpected failures, unexpected passes): each {key: message}, of the results {key: tally}."""
    failures = {k: t.message for k, t in results.items() if t.failed and k not in known}
    passes = {k: known[k] for k, t in results.items() if not t.failed and k in known}
    return failures, passes
