"""Writes a results file: JSON, a row a line."""

import json
import os


def text(document):
    """JSON with each list's entries on a line of their own, so that a diff and an eye find a row."""
    fields = []
    for name, value in document.items():
        if isinstance(value, list) and value and isinstance(value[0], (dict, list)):
            rows = ",\n".join("  " + json.dumps(row) for row in value)
            fields.append(f" {json.dumps(name)}: [\n{rows}\n ]")
        else:
            fields.append(f" {json.dumps(name)}: {json.dumps(value)}")
    return "{\n" + ",\n".join(fields) + "\n}\n"


def write(path, document):
    """Replaces the file as a whole, so that a run that is ended leaves what it has measured."""
    with open(f"{path}.part", "w", encoding="utf-8") as file:
        file.write(text(document))
    os.replace(f"{path}.part", path)
