"""Writes tests/fixtures/utf8-names.zip by Python's zipfile, which marks names as UTF-8."""

import pathlib
import zipfile

to = pathlib.Path(__file__).parents[1] / "fixtures" / "utf8-names.zip"
with zipfile.ZipFile(to, "w") as archive:
    for name, text in (("a.txt", "one"), ("Ü/中.txt", "two")):
        archive.writestr(zipfile.ZipInfo(name), text)  # of 1980, the same bytes each time
