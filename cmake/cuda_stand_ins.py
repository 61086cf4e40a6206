#!/usr/bin/env python3
"""Makes libraries for those of CUDA that Python's torch names and that are not installed, so that it can be imported.

    cuda_stand_ins.py TORCH_LIB FOLDER

PyPI's torch for Linux is one wheel, whose CUDA part is loaded by `import torch` with or without a GPU, and with it 3.7 GB of
libraries that nothing calls where there is no driver. For each that neither the loader nor a folder on its run path finds,
FOLDER gets one of the same name. Its functions fail with status 1, and those that give the text of an error say why.
"""

import collections
import pathlib
import re
import subprocess
import sys
import tempfile

TEXT = "this torch was set up for CPUs: the CUDA library {} is a stand-in"
FUNCTIONS = re.compile(r"cu|nccl|nvshmem")  # others without a version are Python's, or of the language
SAYS = re.compile(r"(Error|Status)(String|Name)$")


def read_elf(file, *what):
    return subprocess.run(["readelf", "-W", *what, file], check=True, capture_output=True, text=True).stdout


def loaded_with(file, folder):
    """The files in `folder` that the loader takes with `file`, and the names of libraries that it does not find."""
    found = subprocess.run(["ldd", file], check=True, capture_output=True, text=True).stdout
    paths = {pathlib.Path(path).resolve() for path in re.findall(r" => (/.*) \(0x", found)} | {file.resolve()}
    missing = re.findall(r"^\s*(\S+) => not found", found, re.MULTILINE)
    return sorted(path for path in paths if path.parent == folder.resolve()), list(dict.fromkeys(missing))


def symbols(file):
    """(name, version or None, whether it is defined here) of its dynamic symbols; what may be absent is left out."""
    for line in read_elf(file, "--dyn-syms").splitlines():
        words = line.split()
        if len(words) < 8 or not words[0].rstrip(":").isdigit():
            continue
        name, _, version = words[7].partition("@")
        here = words[6] != "UND"
        if here or words[4] == "GLOBAL":
            yield name, version.lstrip("@") or None, here


def version_owners(file):
    """Of each version of a symbol the library that it is asked of."""
    owners, library = {}, None
    for line in read_elf(file, "--version-info").splitlines():
        if match := re.search(r"Version: \d+\s+File: (\S+)", line):
            library = match[1]
        elif match := re.search(r"Name: (\S+)\s+Flags: .*Version: \d+", line):
            owners[match[1]] = library
    return owners


def asked_of(files, libraries):
    """{library: {version or None: names}}. A name without a version can be in any: it goes to the first that has none."""
    versioned, plain, defined, named = collections.defaultdict(set), set(), set(), set()
    for file in files:
        owners = version_owners(file)
        for name, version, here in symbols(file):
            if here:
                defined.add(name)
            elif version is None:
                plain.add(name)
            elif owners.get(version) in libraries:
                versioned[owners[version], version].add(name)
                named.add(owners[version])
    asked = {library: {} for library in libraries}
    for (library, version), names in versioned.items():
        asked[library][version] = names
    without = next((library for library in libraries if library not in named), None)
    if without:
        asked[without][None] = {name for name in plain - defined if FUNCTIONS.match(name)}
    return asked


def make(library, versions, folder):
    # One that asks for a version finds it in the library of that name alone; one of no version may be of any.
    code = ["static int fails(void) { return 1; }", f'static const char* says(void) {{ return "{TEXT.format(library)}"; }}']
    script, before = [], ""
    for version, names in sorted(versions.items(), key=lambda item: item[0] or ""):
        for name in sorted(names):
            what = "const char* {}(void) {}" if SAYS.search(name) else "int {}(void) {}"
            code.append(what.format(name, f'__attribute__((alias("{"says" if SAYS.search(name) else "fails"}")));'))
        if version is not None:
            script.append(f"{version} {{ global: {'; '.join(sorted(names))}; }}{before};")
            before = f" {version}"
    with tempfile.TemporaryDirectory() as work:
        source, exports = pathlib.Path(work, "code.c"), pathlib.Path(work, "exports")
        source.write_text("\n".join(code) + "\n")
        exports.write_text("\n".join(script) + "\n")
        made = pathlib.Path(folder, f".{library}")
        command = ["c++", "-x", "c", "-shared", "-fPIC", "-nostdlib", "-o", made, source, f"-Wl,-soname,{library}"]
        subprocess.run(command + ([f"-Wl,--version-script={exports}"] if script else []), check=True)
        made.rename(pathlib.Path(folder, library))


def main(torch_lib, folder):
    torch_lib = pathlib.Path(torch_lib)
    files, libraries = loaded_with(torch_lib / "libtorch_python.so", torch_lib)
    pathlib.Path(folder).mkdir(parents=True, exist_ok=True)
    for library, versions in asked_of(files, libraries).items():
        make(library, versions, folder)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
