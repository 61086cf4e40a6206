#!/usr/bin/env bash
# All that there is to prove and to measure on a GPU, in the order of its worth, from a folder that tools/pack_gpu made:
# selfcheck, a training step and table 1 beside other packages where those are there, tests, then as much of the paper's suite
# as the time allows. Started again, it goes on: what is done stays done.
#
#   ./run_gpu.sh [MINUTES]             default 60
#
#   OUT=FOLDER       where all results go; default ./results
#   PYTHON=python3   a Python with the torch that FOLDER/NEEDS names
#   LRA_DEVICE=cpu   without a GPU: the same, small, to see that the folder works; default cuda
#   TEXT=FILE IMAGE=FILE    aclImdb_v1.tar.gz and cifar-10-binary.tar.gz: two more tasks of the suite
#
# The status is 1 where a part failed; OUT/parts.tsv says how each part ended.
# shellcheck disable=SC2317,SC2054  # Functions are called by `part`; the commas are an option's.
set -euo pipefail

here=$(cd -P "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")" && pwd)
say() { printf 'run_gpu: %s\n' "$*" >&2; }
die() {
  say "$@"
  exit 2
}

minutes=${1:-60} device=${LRA_DEVICE:-cuda} out=${OUT:-$PWD/results} python=${PYTHON:-python3}
[[ $minutes =~ ^[1-9][0-9]*$ && $# -le 1 ]] || die "expected [MINUTES], a whole number from 1, not '$*'"
[[ $device =~ ^(cpu|cuda(:[0-9]+)?)$ ]] || die "LRA_DEVICE is '$device', expected cpu, cuda or cuda:N"
end=$((SECONDS + minutes * 60))

# ---- What the machine brings ------------------------------------------------------------------------------------------
need() { sed -n "s/^$1=//p" "$here/NEEDS"; }
command -v "$python" >/dev/null || die "there is no $python; set PYTHON to a Python with torch $(need torch)"
# Not imported, which takes seconds: its version, and where it lies.
read -r version torch < <("$python" -c '
import importlib.util, os, re
found = importlib.util.find_spec("torch")
if found:
    folder = os.path.dirname(found.origin)
    print(re.search(r"__version__ *= *.([^\x27\"]*)", open(os.path.join(folder, "version.py")).read()).group(1), folder)
') || die "$python has no torch; PYTHON should be one with torch $(need torch)"
[[ ${version%+*} == "$(need torch | sed 's/+.*//')" ]] ||
  die "$python has torch $version, and this program was built with $(need torch): its libraries would not fit"
[[ $(need processor) == "$(uname -m)" ]] || die "this machine is $(uname -m), and this program was built for $(need processor)"
glibc=$(getconf GNU_LIBC_VERSION | cut -d ' ' -f 2)
[[ $(printf '%s\n' "$(need glibc)" "$glibc" | sort -V | head -n 1) == "$(need glibc)" ]] ||
  die "the C library here is $glibc, and this program needs $(need glibc) or newer"
if [[ $device == cuda* ]]; then
  [[ -e $torch/lib/libtorch_cuda.so ]] || die "torch $version of $python has no CUDA; LRA_DEVICE=cpu does without"
  [[ -e /proc/driver/nvidia/version ]] || command -v nvidia-smi >/dev/null || die "no NVIDIA driver here; LRA_DEVICE=cpu does without"
fi

mkdir -p "$out"
out=$(cd "$out" && pwd)
# What is done there stays done: it has to be of this device and this program.
about=$(echo "device=${device%%:*}" && cat "$here/NEEDS")
if [[ ! -e $out/.of ]] && compgen -G "$out/.done-*" >/dev/null; then
  die "$out does not say of which device and program its results are; set OUT to another folder"
fi
if [[ -e $out/.of && $(cat "$out/.of") != "$about" ]]; then
  die "$out holds results of another device or program ($(head -n 1 "$out/.of")); set OUT to another folder"
fi
echo "$about" >"$out/.of"
# ours PROGRAM WORDS...: one of ours, asked to stop after the part's seconds (status 143) and killed three minutes later. Its
# libraries are not for Python, which brings its own of some.
ours() {
  timeout --foreground --preserve-status -s TERM -k 180 "$seconds" \
    env LD_LIBRARY_PATH="$here/lib:$torch/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" "$here/bin/$1" "${@:2}"
}
lra() { ours lra "$@"; }
peers=$out/peers.sh  # what `lra profile` starts: Python, without our libraries
cat >"$peers" <<PEERS
#!/bin/sh
LD_LIBRARY_PATH='${LD_LIBRARY_PATH:-}'
[ -n "\$LD_LIBRARY_PATH" ] || unset LD_LIBRARY_PATH
exec '$python' '$here/peers/profile_peers.py' "\$@"
PEERS
chmod +x "$peers"

# ---- Parts ------------------------------------------------------------------------------------------------------------
failed=0 seconds=0
left() { echo $((end - SECONDS)); }
# part NAME SECONDS WORDS...: runs once, with its output in OUT/NAME.log, for as long as SECONDS (0: what is left) allow. What
# the end of the time stops is neither done nor failed: the next call goes on.
part() {
  local name=$1 begin=$SECONDS status=0 word=failed
  seconds=$2
  shift 2
  if [[ -e $out/.done-$name ]]; then
    say "$name: done before"
    return
  fi
  if (($(left) <= 0)); then
    say "$name: no time left; the same command goes on"
    return
  fi
  if ((seconds == 0 || seconds > $(left))); then seconds=$(left); fi
  say "$name: at most $seconds s (log: $out/$name.log)"
  "$@" >>"$out/$name.log" 2>&1 || status=$?
  case $status in
    0)
      word='done'
      touch "$out/.done-$name"
      ;;
    130 | 143) word=stopped ;;  # by Ctrl-C, or by the end of its time
    *) failed=1 ;;
  esac
  printf '%s\t%s\t%d\t%d\n' "$name" "$word" "$status" $((SECONDS - begin)) >>"$out/parts.tsv"
  say "$name: $word (status $status, $((SECONDS - begin)) s)"
  if ((status == 130)); then exit 130; fi
}

about_machine() {
  date -u
  cat "$here/NEEDS"
  lra --version
  echo "python=$("$python" -V 2>&1) torch=$version glibc=$glibc"
  lscpu 2>/dev/null || cat /proc/cpuinfo
  if command -v nvidia-smi >/dev/null; then nvidia-smi -q; fi
}

self_check() {
  rm -f "$out/selfcheck.jsonl"  # of a call that was stopped
  lra selfcheck --device "$device" --minutes "$1" --out "$out/selfcheck.jsonl"
}

# Those of the attentions and operators, on the CPU and the GPU of this machine; not those that read files of the source.
run_tests() {
  ours attention_variants_tests --gtest_brief=1 --gtest_filter="$1"
}

prepare_data() {
  lra data prepare listops --out "$out/data" || return
  if [[ -n ${TEXT:-} ]]; then lra data prepare text --source "$TEXT" --out "$out/data" || return; fi
  if [[ -n ${IMAGE:-} ]]; then lra data prepare image --source "$IMAGE" --out "$out/data" || return; fi
}

tasks=listops
if [[ -n ${TEXT:-} ]]; then tasks+=,text; fi
if [[ -n ${IMAGE:-} ]]; then tasks+=,image; fi
with_peers=()
if "$peers" --list 2>/dev/null | grep '"package"' >/dev/null; then
  with_peers=(--peers "$peers")
else
  say "none of the packages in $here/peers/requirements.txt is here: the tables go without them"
fi
step=(--scope model --mode training --attentions standard,nystrom,linformer,performer,linear)
if [[ $device == cpu ]]; then  # to see that it works
  check_minutes=15
  tests='Dispatch*:Dropout*'
  table=(--attentions standard,nystrom --lengths 128 --scope module --mode inference --heads 2 --head-dim 16 --passes 1 --seconds 0.02)
  step+=(--batch 2 --lengths 128 --passes 1 --seconds 0.02)
  suite=(--budget smoke)
else
  check_minutes=5
  tests=-'Slow*:*TorchScript*:ContractTest.*'
  table=(--preset table1)
  step+=(--batch 32 --lengths 2048)
  suite=(--budget paper --tasks "$tasks" --seeds 0 --data "$out/data")
fi

part machine 60 about_machine
part selfcheck $((check_minutes * 60 + 60)) self_check "$check_minutes"
part step 900 lra profile "${step[@]}" --device "$device" "${with_peers[@]}" --out "$out/step.jsonl"
# After so many minutes each cell has one pass; a quarter of an hour has other uses for the rest.
part table1 1800 lra profile "${table[@]}" --max-minutes $(((minutes + 3) / 4)) --device "$device" "${with_peers[@]}" --out "$out/table1.jsonl"
# Most of them emulate kernels, on the CPU.
if [[ $device == cpu ]] || ((minutes >= 30)); then part tests 900 run_tests "$tests"; fi
if [[ $device != cpu ]]; then part data 1800 prepare_data; fi
part suite 0 lra suite "${suite[@]}" --device "$device" --resume --out "$out/suite"
end=$((SECONDS + 120))  # a report is made in any case
rm -f "$out/.done-report"
part report 120 lra report "$out" --out "$out/report"
say "all of it: $out (parts.tsv, selfcheck.jsonl, report)"
exit "$failed"
