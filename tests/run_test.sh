#!/usr/bin/env bash
# The launcher ./run, in a checkout of its own (whose path has a space) with stand-ins for CMake, Ninja, CTest, dpkg and pip:
# what it passes on, what it says when something is missing, what it repairs, and how long it takes itself.
set -euo pipefail

source_root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
chmod 755 "$work"
checkout="$work/a checkout"
fakes=$work/fakes
export XDG_CACHE_HOME=$work/cache FAKE_INSTALLED=yes FAKE_LOG=$work/calls
unset LRA_TORCH LRA_EXTRA_VARIANTS LRA_BUILD_JOBS

mkdir -p "$fakes" "$checkout"/{attention_variants,lra,results/measured,harness,tests}
cp -r "$source_root"/{run,cmake,CMakeLists.txt,CMakePresets.json} "$checkout/"
echo 'int main() {}' >"$checkout/harness/main.cpp"

# ---- Stand-ins --------------------------------------------------------------------------------------------------------
fake() { cat >"$fakes/$1" && chmod +x "$fakes/$1"; }
fake c++ <<'END'
#!/bin/bash
echo 'c++ 12'
END
# Configures as far as ./run looks: the cache and Ninja's file.
fake cmake <<'END'
#!/bin/bash
echo "cmake $*" >>"$FAKE_LOG"
for argument; do case $argument in -DCMAKE_PREFIX_PATH=*) prefix=${argument#*=} ;; esac; done
printf 'CMAKE_HOME_DIRECTORY:INTERNAL=%s\nTorch_DIR:PATH=%s/Torch\n' "$PWD" "$prefix" >build/release/CMakeCache.txt
echo good >build/release/build.ninja
END
# Its program says what it got, and leaves with the status it is told.
fake ninja <<'END'
#!/bin/bash
if [[ $* == *' -n '* ]]; then grep -qx good "$2/build.ninja"; exit; fi
echo "ninja $*" >>"$FAKE_LOG"
sleep "${FAKE_SECONDS:-0}"
grep -qx good "$2/build.ninja" || { echo 'ninja: error: build.ninja: expected a rule'; exit 1; }
if [[ -n ${FAKE_ERROR:-} ]]; then echo "a.cpp:1: error: $FAKE_ERROR"; exit 1; fi
[[ -s $2/bin/lra ]] && exit
mkdir -p "$2/bin"
cat >"$2/bin/lra" <<'PROGRAM'
#!/bin/bash
printf '<%s>' "$PWD" "$@"
[[ $1 == pid ]] && echo $$
if [[ $1 == exit ]]; then exit "$2"; fi
PROGRAM
chmod +x "$2/bin/lra"
END
fake ctest <<'END'
#!/bin/bash
echo "ctest $*" >>"$FAKE_LOG"
while [[ $1 != --output-junit ]]; do shift; done
printf '<testsuite name="x"\n\ttests="9"\n\tfailures="2"\n\tdisabled="0"\n\tskipped="3"\n>\n</testsuite>\n' >"$2"
exit 8
END
fake dpkg-query <<'END'
#!/bin/bash
[[ $FAKE_INSTALLED == yes ]] || exit 1
for name in nlohmann-json3 libcli11 libfmt libboost1.74 libssl libarchive libpng libjpeg libgtest libbenchmark; do echo "installed $name-dev"; done
END
for tool in dpkg apt-get; do
  fake $tool <<'END'
#!/bin/bash
echo "${0##*/} $*" >>"$FAKE_LOG"
END
done
fake sudo <<'END'
#!/bin/bash
exit 1
END
fake df <<'END'
#!/bin/bash
printf 'Size Free\nx x x %s x\n' "${FAKE_FREE:-99999999}"
END
# A Python without torch that makes virtual environments; their pip installs an empty torch, or fails half-way.
fake python3 <<'END'
#!/bin/bash
if [[ $1 == -c ]]; then [[ $2 != *find_spec* && $2 != 'import torch' ]]; exit; fi
site=$3/lib/python3.11/site-packages
mkdir -p "$3/bin" "$site"
echo "venv $3" >>"$FAKE_LOG"
cat >"$3/bin/python" <<PIP
#!/bin/bash
mkdir -p "$site/torch/lib" "$site/torch/share/cmake/Torch"
if [[ -n \${FAKE_PIP_FAILS:-} ]]; then touch "$site/half"; exit 1; fi
touch "$site/torch/lib/libtorch.so" "$site/torch/share/cmake/Torch/TorchConfig.cmake"
echo "__version__ = '2.11.0'" >"$site/torch/version.py"
PIP
chmod +x "$3/bin/python"
END
export PATH=$fakes:$PATH

# ---- How it is tried --------------------------------------------------------------------------------------------------
passed=0 wrong=0
# run_it ARGUMENTS...: sets out, err, status and calls (what it called of the stand-ins).
run_it() {
  : >"$FAKE_LOG"
  status=0
  out=$("$checkout/run" "$@" 2>"$work/err") || status=$?
  err=$(cat "$work/err") calls=$(cat "$FAKE_LOG")
}
# expect WHAT ACTUAL PATTERN
expect() {
  # shellcheck disable=SC2053  # A pattern is meant.
  if [[ $2 == $3 ]]; then
    passed=$((passed + 1))
  else
    wrong=$((wrong + 1))
    printf 'FAILED %s\n  is:       %s\n  expected: %s\n' "$1" "$2" "$3"
  fi
}
torch_at() {  # torch_at FOLDER VERSION
  mkdir -p "$1/lib" "$1/share/cmake/Torch"
  touch "$1/lib/libtorch.so" "$1/share/cmake/Torch/TorchConfig.cmake"
  echo "$2" >"$1/build-version"
}

# ---- The first call ---------------------------------------------------------------------------------------------------
FAKE_FREE=3000000 run_it train
expect 'a full disk is told beforehand' "$status $err" '1 *LibTorch needs 8 GB free in *there are 2;*'
FAKE_PIP_FAILS=1 run_it train
expect 'pip failing is told' "$status $err" '1 *pip could not install torch 2.11.0*run again*'
run_it exit 7 'two words' '*'
expect 'a half-made environment is made anew' "$err" "*$XDG_CACHE_HOME/lra/venv is not complete, making it anew*"
expect 'nothing of it stays' "$(find "$XDG_CACHE_HOME" -name half)" ''
expect 'how to undo it is said' "$err" "*undo with: rm -rf '$XDG_CACHE_HOME/lra/venv'*"
expect 'and kept' "$(cat "$XDG_CACHE_HOME/lra/setup.log")" "*installed torch 2.11.0*rm -rf*"
expect 'arguments pass through as they are' "$out" "<$PWD><exit><7><two words><[*]>"
expect 'so does the status' "$status" 7
expect 'only the program is built' "$calls" '*ninja -C * lra'

# ---- The second call --------------------------------------------------------------------------------------------------
cd "$work"
run_it list attentions
expect 'the second call does and says nothing of its own' "$calls$err" ''
expect 'and keeps the folder of the user' "$out" "<$work><list><attentions>"
best=999999
for _ in 1 2 3; do
  before=$(date +%s%N)
  "$checkout/run" list >/dev/null
  took=$((($(date +%s%N) - before) / 1000000))
  if ((took < best)); then best=$took; fi
done
echo "its own time: $best ms"
expect 'and takes less than 500 ms' "$((best < 500))" 1
# shellcheck disable=SC2016
expect 'the program takes its place, so that signals reach it' \
  "$(bash -c 'echo -n $$=; exec "$0" pid' "$checkout/run" | sed 's/<.*>//; s/^\(.*\)=\1$/same/')" same
run_it
expect 'no arguments: the help' "$out" '*<--help>'

# ---- What has changed -------------------------------------------------------------------------------------------------
touch -d '1 minute' "$checkout/lra/new.cpp"
run_it list
expect 'a new file is built' "$calls" '*ninja*lra'
rm "$checkout/lra/new.cpp"
run_it list
mv "$checkout/build/release/build.ninja" "$work/"
touch "$checkout/harness/main.cpp"
run_it exit 3
expect 'a lost build.ninja is made again' "$status $calls" '3 cmake*ninja*'
fake mpicxx <<'END'
#!/bin/bash
END
run_it list
expect 'an MPI that came is looked for' "$status $calls" '0 cmake *-U MPI_\* *ninja*'
run_it list
expect 'once' "$calls" ''
rm "$fakes/mpicxx"
run_it list
expect 'and again when it went' "$status $calls" '0 cmake *ninja*'
echo damaged >"$checkout/build/release/build.ninja"
touch "$checkout/harness/main.cpp"
run_it exit 3
expect 'a damaged build.ninja as well' "$status $err" '3 *build folder is damaged, once more from nothing*'
: >"$checkout/build/release/bin/lra"
run_it exit 3
expect 'a program cut short is made again' "$status" 3
sed -i 's/^CMAKE_HOME.*/CMAKE_HOME_DIRECTORY:INTERNAL=elsewhere/' "$checkout/build/release/CMakeCache.txt"
touch "$checkout/harness/main.cpp"
run_it exit 3
expect 'a build of another checkout is made anew' "$status $err" '3 *made from another checkout*'
rm "$XDG_CACHE_HOME/lra/venv/lib/python3.11/site-packages/torch/lib/libtorch.so"
run_it exit 3
expect 'a lost LibTorch is installed again' "$status $calls" '3 venv*'
touch "$checkout/harness/main.cpp"
FAKE_ERROR='no such thing' run_it list
expect 'a mistake in a source file is shown' "$status $err" '1 *a.cpp:1: error: no such thing*the whole log: *'
expect 'and empties no build folder' "$(cat "$checkout/build/release/build.ninja") ${err#*damaged}" "good $err"
run_it exit 4
expect 'until it is mended' "$status" 4
touch "$checkout/harness/main.cpp"
: >"$FAKE_LOG"
FAKE_SECONDS=1 "$checkout/run" list >"$work/first" 2>&1 &
sleep 0.3
second=$("$checkout/run" list 2>&1)
wait
expect 'two at once wait for each other' "$second" '*waiting for another ./run*<list>'
expect 'and build once' "$(grep -c ninja "$FAKE_LOG")" 1

# ---- What the user asks for -------------------------------------------------------------------------------------------
LRA_TORCH=$work/nowhere run_it list
expect 'LRA_TORCH without a LibTorch' "$status $err" "1 *LRA_TORCH: no LibTorch in '$work/nowhere'*"
torch_at "$work/old" 2.4.1+cpu
LRA_TORCH=$work/old run_it list
expect 'LRA_TORCH of an old one' "$status $err" "1 *version '2.4.1', wanted is 2.6 or newer*"
torch_at "$work/good" 2.7.0+cpu
LRA_TORCH=$work/good run_it exit 5
expect 'LRA_TORCH of a good one' "$status $calls" "5 cmake *-DCMAKE_PREFIX_PATH=$work/good/share/cmake*"
run_it exit 5
expect 'it stays without asking again' "$status $calls$err" '5 '
LRA_EXTRA_VARIANTS=none.cpp run_it list
expect 'LRA_EXTRA_VARIANTS without the file' "$status $err" "1 *LRA_EXTRA_VARIANTS: no file 'none.cpp'*"
touch "$work/mine.cpp"
LRA_EXTRA_VARIANTS=mine.cpp run_it list
expect 'LRA_EXTRA_VARIANTS with it' "$calls" "*-DLRA_EXTRA_VARIANTS=$work/mine.cpp*"
LRA_BUILD_JOBS=many run_it list
expect 'LRA_BUILD_JOBS that is no number' "$status $err" "1 *LRA_BUILD_JOBS is 'many', expected a number*"
LRA_BUILD_JOBS=3 run_it list
expect 'LRA_BUILD_JOBS that is one' "$calls" '*ninja -C * -j 3 *'

# ---- Tests ------------------------------------------------------------------------------------------------------------
run_it test -R some
expect 'tests: all is built, the preset leaves out the slow' "$calls" '*ninja * all*ctest --preset release *-R some'
expect 'tests: the last line counts, the status is that of CTest' "$status $out" '8 3 skipped*4 passed, 2 failed'
run_it test --slow
expect 'tests: --slow takes all' "$calls" 'ctest --test-dir *'

# ---- Missing packages -------------------------------------------------------------------------------------------------
touch "$checkout/harness/main.cpp"
wanted='nlohmann-json3-dev libcli11-dev libfmt-dev libboost-dev libssl-dev libarchive-dev libpng-dev libjpeg-dev libgtest-dev libbenchmark-dev'
if ((EUID == 0)); then
  FAKE_INSTALLED=no run_it exit 6
  expect 'as root they are installed' "$status $calls" "6 dpkg --configure -a*apt-get*update*apt-get*install*$wanted*"
  expect 'and how to undo it is said' "$err" "*undo with: apt-get remove --autoremove $wanted*"
  chmod -R a+rwX "$work"
  as_user=(setpriv --reuid=65534 --regid=65534 --clear-groups)
fi
touch "$checkout/harness/main.cpp"
status=0
err=$(FAKE_INSTALLED=no ${as_user[@]+"${as_user[@]}"} "$checkout/run" list 2>&1 >/dev/null </dev/null) || status=$?
expect 'a user who may not is told whom to ask for what' "$status $err" \
  "1 *missing packages: $wanted*ask the administrator for: apt-get install $wanted"

echo "$passed passed, $wrong failed"
((wrong == 0))
