# The steps of the set-up, read by ./run when something is missing or has changed. Each step first looks whether it has been
# done, says what it does and how to undo it, and leaves its mark last: whatever was interrupted is done again by the next call.
# shellcheck shell=bash disable=SC2154  # root, build, cache, program, wanted_torch, asked_cuda, extra_variants: set by run

readonly torch_version=2.11.0
readonly torch_oldest=2.6
readonly torch_cuda=13  # of that wheel
# What libtorch_cpu.so of that wheel needs of NVIDIA's packages, in the versions that the wheel asks for.
readonly torch_cpu_needs=(nvidia-cuda-runtime==13.0.96 nvidia-cuda-cupti==13.0.85)
quiet=(--quiet)
if [[ -t 2 ]]; then quiet=(); fi  # A terminal sees how far pip is.
# Debian and Ubuntu packages and what shows that one is there already, whatever installed it: a command, else the package itself.
readonly packages=(g++:c++ cmake:cmake ninja-build:ninja nlohmann-json3-dev libcli11-dev libfmt-dev libboost-dev libssl-dev
  libarchive-dev libpng-dev libjpeg-dev libgtest-dev libbenchmark-dev)

# did WHAT, UNDO: told to the user and kept beside what was installed.
did() {
  say "  undo with: $2"
  if [[ -n $(unwritable "$cache") ]]; then return; fi
  printf '%s  %s; undo with: %s\n' "$(date '+%F %T')" "$1" "$2" >>"$cache/setup.log"
}

need_writable() {
  local why
  why=$(unwritable "$1")
  if [[ -z $why ]]; then return; fi
  die "$1 cannot be written ($why); free space there, make it yours (chown), or set XDG_CACHE_HOME to another folder (an absolute path), or LRA_TORCH to an installed LibTorch"
}

# one_at_a_time FILE DESCRIPTOR: holds the lock until the descriptor is closed; a second call waits.
one_at_a_time() {
  local folder=${1%/*}
  need_writable "$folder"
  eval "exec $2>\"\$1\""
  local status=0
  if command -v flock >/dev/null; then flock -n "$2" || status=$?; fi
  if ((status == 1)); then
    say "waiting for another ./run to finish its set-up"
    flock "$2"
  elif ((status)); then
    say "$folder is on a file system without locks (above: why): call no second ./run until this one is done"
  fi
}

# ---- Packages ---------------------------------------------------------------------------------------------------------
# Python looks for its own modules in the working folder first, where a logging.py of the user's may lie: those of the
# system are called from /, as -I would hide the user's torch, and those of environments with -I.
from_root() { (cd / && "$@"); }

# A Python that can make virtual environments and that there are wheels of torch for.
find_python() {
  for python in python3 /usr/bin/python3; do
    if from_root "$python" -c 'import sys, ensurepip, venv; sys.exit(sys.version_info < (3, 10))' 2>/dev/null; then return 0; fi
  done
  return 1
}

# Whether an extension module can be compiled for the Python that LibTorch comes with, which may still have to be installed.
has_python_headers() {
  find_python && from_root "$python" -c 'import os, sys, sysconfig; sys.exit(not os.path.exists(sysconfig.get_path("include") + "/Python.h"))' 2>/dev/null
}

missing_packages() {
  local entry package installed
  installed=$(dpkg-query -W -f='${db:Status-Status} ${Package}\n' 'lib*-dev' nlohmann-json3-dev 2>/dev/null || true)
  for entry in "${packages[@]}"; do
    package=${entry%%:*}
    if [[ $entry == *:* ]]; then
      command -v "${entry#*:}" >/dev/null || echo "$package"
    elif [[ $package == libboost-dev ]]; then  # Also there as the headers of one version.
      grep -qE '^installed libboost(1\.[0-9]+)?-dev$' <<<"$installed" || echo "$package"
    else
      grep -qxF "installed $package" <<<"$installed" || echo "$package"
    fi
  done
  if [[ -z $wanted_torch || $wanted_torch == pip ]] && ! find_python; then echo python3-venv; fi
}

# Sets as_root (nothing, or sudo). Fails where this user may install nothing; is asked for a password only for what must be.
may_install() {
  as_root=()
  if ((EUID == 0)); then return; fi
  as_root=(sudo)
  command -v sudo >/dev/null || return 1
  sudo -n true 2>/dev/null || { (($1)) && [[ -t 0 && -t 2 && -z ${CI:-} ]]; }
}

# A proxy's, in a line to be shown.
without_passwords() { sed 's#//[^/@ ]*@#//...@#g' <<<"$1"; }

install_packages() {
  local missing all lost
  if ! command -v dpkg-query >/dev/null; then return 0; fi  # Not Debian: CMake says what it does not find.
  mapfile -t missing < <(missing_packages)
  all=("${missing[@]}") lost=()
  # Without these all else runs.
  if ! command -v gnuplot >/dev/null; then all+=(gnuplot-nox) lost+=("reports will have no plots"); fi
  if ! has_python_headers; then all+=(libpython3-dev) lost+=("attentions cannot be classes of Python"); fi
  local without="${lost[*]/%/,}"
  if ((${#all[@]} == 0)); then return 0; fi
  local by_hand="apt-get install --no-install-recommends ${all[*]}"
  if ! may_install ${#missing[@]}; then
    if ((${#missing[@]} == 0)); then
      say "$without and this user can install no packages; for an administrator: $by_hand"
      return 0
    fi
    die "missing packages, and this user can install none (not root, no sudo); for an administrator: $by_hand"
  fi
  local quietly=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive) steps step log name
  # sudo passes no proxies on.
  for name in http_proxy https_proxy no_proxy; do
    if [[ -n ${as_root[*]} && -n ${!name:-} && ${!name} != *[[:space:]]* ]]; then quietly+=("$name=${!name}"); fi
  done
  local apt=("${quietly[@]}" apt-get -o DPkg::Lock::Timeout=600 -qy)
  # First what an interrupted installation left half configured.
  steps=("${quietly[*]} dpkg --configure -a" "${apt[*]} update" "${apt[*]} install --no-install-recommends ${all[*]}")
  # For these alone nobody waits for servers that cannot be reached, nor for lists where there are some.
  if ((${#missing[@]} == 0)); then
    local hasty="${apt[*]} -o Acquire::Retries=0 -o Acquire::http::Timeout=10"
    steps=("$hasty ${steps[2]#"${apt[*]} "}")
    if ! compgen -G '/var/lib/apt/lists/*Packages*' >/dev/null; then steps=("$hasty update" "${steps[@]}"); fi
  fi
  say "installing packages, by"
  for step in "${steps[@]}"; do say "  $(without_passwords "$step")"; done
  log=$(mktemp)
  set -f  # Words of a step are no patterns.
  for step in "${steps[@]}"; do
    # shellcheck disable=SC2086  # No word of a step has a space.
    if $step >>"$log" 2>&1 </dev/null; then continue; fi
    # One of the machine's sources that cannot be reached is no reason: the installation says what it lacks.
    if [[ $step == *' update' ]]; then continue; fi
    if ((${#missing[@]} == 0)); then
      say "that failed ($log): ${without%,}; try by hand: ${as_root[*]}${as_root:+ }$by_hand"
      set +f
      return 0
    fi
    tail -n 20 "$log" >&2
    die "could not install the packages (above: the end of $log); try by hand: ${as_root[*]}${as_root:+ }$by_hand"
  done
  set +f
  rm -f "$log"
  did "installed packages ${all[*]}" "${as_root[*]}${as_root:+ }apt-get remove --autoremove ${all[*]}"
}

# ---- LibTorch ---------------------------------------------------------------------------------------------------------
# torch_in FOLDER: the LibTorch in it: FOLDER itself, or the torch of site-packages or of a Python prefix, Debian's too.
torch_in() {
  local candidate
  for candidate in "$1" "$1/torch" "$1"/lib/python3*/{site,dist}-packages/torch; do
    if [[ -f $candidate/share/cmake/Torch/TorchConfig.cmake && -f $candidate/lib/libtorch.so ]]; then
      echo "$candidate"
      return
    fi
  done
  return 1
}

# "2.11.0", "13.0" (nothing for a LibTorch without CUDA): Python's torch has a version.py, the plain LibTorch a build-version.
torch_version_of() {
  { sed -n "s/^__version__ *= *'\([0-9.]*\).*/\1/p" "$1/version.py" || sed 's/+.*//' "$1/build-version"; } 2>/dev/null
}
torch_cuda_of() {
  if [[ ! -f $1/lib/libtorch_cuda.so ]]; then return; fi
  { sed -n "s/^cuda[^=]*= *'\([0-9.]*\)'.*/\1/p" "$1/version.py" ||
    sed -n 's/.*+cu\([0-9]*\)\([0-9]\)$/\1.\2/p' "$1/build-version"; } 2>/dev/null
}

# Whether a toolkit is installed whose headers and libraries our own torch can be compiled with.
has_toolkit() {
  local nvcc
  nvcc=$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)
  [[ -f ${nvcc%/bin/nvcc}/include/cublas_v2.h && $("$nvcc" --version 2>&1) == *"release $torch_cuda."* ]]
}

# Sets with_cuda to on or off, and cuda_packages to no where what a GPU's code needs to run is not installed.
choose_with_cuda() {
  with_cuda=$asked_cuda cuda_packages=yes
  # The second line is the toolkit of a build with CUDA.
  if [[ $with_cuda == auto ]]; then
    with_cuda=off
    if has_driver || [[ -n $(sed -n 2p "$build/.torch" 2>/dev/null) && -f $(sed -n 1p "$build/.torch")/lib/libtorch.so ]]; then
      with_cuda=on
    fi
  fi
  if [[ $with_cuda == off ]] || { [[ $with_cuda == compile ]] && has_toolkit; }; then cuda_packages=no; fi
  if [[ $with_cuda == compile ]]; then with_cuda=on; fi
}

at_least() { [[ $(printf '%s\n' "$1" "$2" | sort -V | head -n 1) == "$1" ]]; }

# unfit FOLDER: why this LibTorch cannot serve; nothing where it can.
unfit() {
  local version cuda
  version=$(torch_version_of "$1") cuda=$(torch_cuda_of "$1")
  if [[ -z $version ]] || ! at_least $torch_oldest "$version"; then
    echo "it is version '$version', wanted is $torch_oldest or newer"
  elif grep -q 'GLIBCXX_USE_CXX11_ABI=0' "$1/share/cmake/Torch/TorchConfig.cmake"; then
    echo "it was built with the old C++ ABI; take a 'cxx11 ABI' build"
  elif [[ $with_cuda == off ]]; then
    ldd "$1/lib/libtorch_cpu.so" 2>/dev/null | sed -n 's/^[[:space:]]*\(.*\) => not found/its libtorch_cpu.so finds no \1/p;T;q' || true
  elif [[ $asked_cuda != auto && -z $cuda ]]; then
    echo "it was built without CUDA, and LRA_CUDA is $asked_cuda"
  elif [[ -n $cuda ]] && ! cuda_compiler_for "$1" >/dev/null && ! has_cuda_packages "$1"; then
    echo "it was built with CUDA $cuda and no nvcc of CUDA ${cuda%%.*} is on PATH or in /usr/local/cuda; LRA_CUDA=off does without"
  fi
}

# Sets torch: what LRA_TORCH points at, else what the last build took, else python3's own, else one in a virtual environment.
choose_torch() {
  local reason
  if [[ -n $wanted_torch && $wanted_torch != pip ]]; then
    torch=$(torch_in "$wanted_torch") ||
      die "LRA_TORCH: no LibTorch in '$wanted_torch' (looked for share/cmake/Torch and lib/libtorch.so); give the folder of LibTorch or of an installed Python torch"
    reason=$(unfit "$torch")
    if [[ -n $reason ]]; then die "LRA_TORCH: the LibTorch in '$torch' cannot serve: $reason"; fi
    return
  fi
  if [[ -z $wanted_torch ]]; then
    torch=$(sed -n 1p "$build/.torch" 2>/dev/null || true)
    if [[ $torch == "$cache"/* ]]; then
      install_torch
      return
    fi
    if [[ -f $torch/lib/libtorch.so && -z $(unfit "$torch") ]]; then return; fi
    torch=$(from_root python3 -c 'import importlib.util as u; print(*u.find_spec("torch").submodule_search_locations)' 2>/dev/null || true)
    if [[ -n $torch ]] && torch=$(torch_in "$torch"); then
      reason=$(unfit "$torch")
      if [[ -z $reason ]]; then
        say "LibTorch: python3's own, $(torch_version_of "$torch") in $torch"
        return
      fi
      say "LibTorch: passing over python3's own in $torch: $reason"
    fi
  fi
  install_torch
}

# has_torch VENV: its mark is written last.
has_torch() {
  [[ -f $1/.torch-$torch_version && -f $(echo "$1"/lib/python3*/site-packages/torch/lib/libtorch.so) ]] && finds_torch "$1"
}

# What is not complete is made anew. The whole of torch serves without CUDA too; without it there is an environment beside it,
# so that neither takes the other's place.
install_torch() {
  local venv=$cache/venv
  if [[ $cuda_packages == no ]] && ! has_torch "$venv"; then venv=$cache/venv-cpu; fi
  # Another checkout may run on another version in that place.
  if ! has_torch "$venv" && compgen -G "$venv/.torch-*" >/dev/null && [[ ! -f $venv/.torch-$torch_version ]]; then
    venv=$venv-$torch_version
  fi
  if ! has_torch "$venv"; then
    # pip writes INSTALLER at the end of a package, and torch after what it needs.
    if [[ -f $(echo "$venv"/lib/python3*/site-packages/torch-$torch_version.dist-info/INSTALLER) ]] &&
      "$venv/bin/python" -I -c 'import torch' 2>/dev/null; then
      say "LibTorch: found torch $torch_version in $venv"
    else
      make_venv "$venv"
    fi
    touch "$venv/.torch-$torch_version"
  fi
  torch=$(torch_in "$venv") || die "no LibTorch in $venv although torch is installed there; remove it and run again: rm -rf '$venv'"
}

free_kib() { df -Pk "$1" | awk 'NR == 2 { print $4 }'; }

need_space() {
  local free=$(($(free_kib "$cache") / 1048576))
  if ((free < $1)); then
    die "LibTorch needs $1 GB free in $cache, there are $free; free some, set XDG_CACHE_HOME elsewhere, or LRA_TORCH to an installed LibTorch"
  fi
}

# What torch asks of other packages, but CUDA's and its compiler.
torch_needs='
import importlib.metadata, re
asked = (line.split(";")[0].strip() for line in importlib.metadata.requires("torch") if "extra ==" not in line)
print("\n".join(line for line in asked if not re.match("nvidia|cuda|triton", line)))'

# complete_torch VENV TORCH: Python can import the torch of a set-up without CUDA, whose CUDA part names libraries that are not there.
complete_torch() {
  local needs
  one_at_a_time "$cache/lock" 9
  if [[ ! -f $1/.whole ]]; then  # Another call may have done it meanwhile.
    need_space 1
    say "LibTorch: Python imports torch with what it asks for; installing that (about 120 MB) into $1, with stand-ins for CUDA's libraries"
    mapfile -t needs < <("$1/bin/python" -I -c "$torch_needs")
    if ! PIP_USER=0 "$1/bin/python" -I -m pip install "${quiet[@]}" --disable-pip-version-check "${needs[@]}" >&2 ||
      ! env -u LD_LIBRARY_PATH "$1/bin/python" "$root/cmake/cuda_stand_ins.py" "$2/lib" "$(cuda_packages_of "$2")/lib" >&2 ||
      ! env -u LD_LIBRARY_PATH "$1/bin/python" -I -c 'import torch' >&2; then
      die "could not complete torch $torch_version in $1 (above: why); run again, or set LRA_PYTHON to a Python that has it"
    fi
    touch "$1/.whole"
    did "completed torch $torch_version in $1" "rm -rf '$1'   (the next call installs it anew, without)"
  fi
  exec 9>&-
}

make_venv() {
  local venv=$1 needed=8 what="about 5 GB, with its CUDA libraries; LRA_CUDA=off: 1.3 GB" wheels=("torch==$torch_version")
  if [[ $cuda_packages == no ]]; then
    # Python's own compiled files are for those who import torch.
    needed=3 what="about 1.3 GB, for CPUs; LRA_CUDA=on: 5 GB" wheels=(--no-deps --no-compile "${wheels[@]}" "${torch_cpu_needs[@]}")
  fi
  find_python || die "no python3 (3.10 or newer, with venv) to install LibTorch with; install python3-venv or set LRA_TORCH"
  need_writable "$cache"
  if [[ -e $venv ]]; then say "LibTorch: $venv is not complete, making it anew"; fi
  rm -rf "$venv"
  mkdir -p "$cache"
  need_space $needed
  say "LibTorch: installing torch $torch_version ($what) into $venv"
  from_root "$python" -m venv "$venv" || die "could not make the virtual environment $venv with $python (above: why)"
  PIP_USER=0 "$venv/bin/python" -I -m pip install "${quiet[@]}" --disable-pip-version-check "${wheels[@]}" >&2 ||
    die "pip could not install torch $torch_version (above: why); run again, or set LRA_TORCH to an installed LibTorch"
  did "installed torch $torch_version into $venv" "rm -rf '$venv'   (and pip's own cache: pip cache purge)"
}

# ---- CUDA compiler: a LibTorch built with CUDA wants a toolkit of the same major version at configure time -----------------
# cuda_compiler_for TORCH: an installed toolkit's folder.
cuda_compiler_for() {
  local nvcc home major
  major=$(torch_cuda_of "$1")
  major=${major%%.*}
  for nvcc in "$(command -v nvcc || true)" "${CUDA_HOME:-/usr/local/cuda}/bin/nvcc" /usr/local/cuda/bin/nvcc; do
    home=$(dirname "$(dirname "$(readlink -f "$nvcc")")")
    if [[ -x $nvcc && -f $home/include/cuda_runtime.h && $("$nvcc" --version 2>&1) == *"release $major."* ]]; then
      echo "$home"
      return
    fi
  done
  return 1
}

# Only the wheels of CUDA 13 and later lie in one folder that PyPI's compiler completes.
cuda_packages_of() { echo "$(dirname "$1")/nvidia/cu$(torch_cuda_of "$1" | cut -d. -f1)"; }
has_cuda_packages() { [[ -f $(cuda_packages_of "$1")/include/cuda_runtime.h ]]; }

# Sets cuda: the toolkit's folder, or nothing for a build without CUDA; with_cuda is none where LibTorch has none.
choose_cuda() {
  local version held
  version=$(torch_cuda_of "$torch") cuda=
  if [[ -z $version ]]; then with_cuda=none; fi
  if [[ $with_cuda != on ]] || cuda=$(cuda_compiler_for "$torch"); then return; fi
  cuda=$cache/cuda
  held=$(cat "$cuda/.complete" 2>/dev/null || true)
  if [[ -n $held && $held != "$torch $version" && -f ${held% *}/lib/libtorch.so ]]; then
    cuda=$cache/cuda-$(torch_version_of "$torch")  # Another checkout's is of its own LibTorch.
  fi
  # Its libraries and headers are links into the packages that came with this torch.
  if [[ $(cat "$cuda/.complete" 2>/dev/null) == "$torch $version" && -e $cuda/lib64/libcudart.so ]]; then return; fi
  find_python || die "no python3 (3.10 or newer, with venv) to install the CUDA compiler with; install CUDA $version"
  need_writable "$cache"
  say "CUDA: no nvcc $version here; installing NVIDIA's compiler from PyPI (about 300 MB) into $cuda"
  rm -rf "$cuda"
  mkdir -p "$cuda"
  from_root "$python" -m venv "$cuda/venv"
  # Without the pins nvvm comes newer than ptxas can read.
  PIP_USER=0 "$cuda/venv/bin/python" -I -m pip install "${quiet[@]}" --disable-pip-version-check --no-deps --target "$cuda/packages" \
    "nvidia-cuda-nvcc==$version.*" "nvidia-nvvm==$version.*" "nvidia-cuda-crt==$version.*" "nvidia-cuda-cccl==$version.*" >&2 ||
    die "pip could not install NVIDIA's compiler (above: why); run again, or install CUDA $version"
  # Moved out of the packages: nvcc looks for all else beside itself.
  mv "$cuda/packages/nvidia/cu${version%%.*}"/* "$cuda/"
  rm -rf "$cuda/packages" "$cuda/venv"
  local from entry name
  from=$(cuda_packages_of "$torch")
  for entry in "$from"/include/* "$from"/lib/*; do
    name=${entry#"$from"/}
    if [[ ! -e $cuda/$name ]]; then ln -s "$entry" "$cuda/$name"; fi
  done
  for entry in "$cuda"/lib/lib*.so.*; do
    name=${entry%%.so.*}.so
    if [[ ! -e $name ]]; then ln -s "$(basename "$entry")" "$name"; fi
  done
  ln -s lib "$cuda/lib64"
  did "installed NVIDIA's compiler into $cuda" "rm -rf '$cuda'"
  echo "$torch $version" >"$cuda/.complete"
}

# ---- Build ------------------------------------------------------------------------------------------------------------
log=$build/build.log

failed() {
  # sed reads to the end: grep would die of a closed pipe, and this with it.
  { grep -E -A 12 '(error|Error|FAILED):? ' "$log" || tail -n 30 "$log"; } 2>/dev/null | sed -n '1,60p' >&2 || true
  local hint=
  if grep -q 'Killed signal' "$log" 2>/dev/null; then hint=' (killed for its memory: fewer jobs by LRA_BUILD_JOBS)'; fi
  if (($(free_kib "$build") < 50000)); then hint=" (the disk of $build is full: free some)"; fi
  die "$1$hint; the whole log: $log"
}

# configure: again whenever what it was configured from has changed; a folder that belongs to another checkout or LibTorch, or
# that CMake chokes on, is emptied first.
configure() {
  local made_from fresh=no held
  made_from=$(printf '%s\n' "$torch" "$cuda" "$extra_variants" "$(c++ --version | head -n 1)" "$(mpi_compiler)" "$(torch_file "$torch")" \
    "$(compgen -G '/usr/include/python3*/Python.h' || true)")
  if [[ -f $build/build.ninja && $(cat "$build/.torch" 2>/dev/null) == "$made_from" ]] && warns_as_asked &&
    grep -qxF "CMAKE_HOME_DIRECTORY:INTERNAL=$root" "$build/CMakeCache.txt"; then
    return
  fi
  if [[ -f $build/CMakeCache.txt ]] && ! { grep -qxF "CMAKE_HOME_DIRECTORY:INTERNAL=$root" "$build/CMakeCache.txt" &&
    grep -qxF "Torch_DIR:PATH=$torch/share/cmake/Torch" "$build/CMakeCache.txt"; }; then
    say "build: $build was made from another checkout or LibTorch, making it anew"
    empty_build
  fi
  # Files of another version may be older than what was made with the one before.
  held=$(sed -n 6p "$build/.torch" 2>/dev/null || true)
  if [[ -f $build/CMakeCache.txt && -n $held && $(sed -n 1p "$build/.torch") == "$torch" && $held != "$(torch_file "$torch")" ]]; then
    say "build: the LibTorch in $torch is another than it was, making $build anew"
    empty_build
  fi
  if [[ ! -f $build/CMakeCache.txt ]]; then fresh=yes; fi
  say "build: configuring in $build, $([[ $with_cuda == on ]] && echo with || echo without) CUDA (undo with: rm -rf '$build')"
  if ! run_cmake; then
    if [[ $fresh == yes ]]; then failed "CMake could not configure the build"; fi
    say "build: that failed, once more from nothing"
    empty_build
    run_cmake || failed "CMake could not configure the build"
  fi
  printf '%s\n' "$made_from" >"$build/.torch"
}

run_cmake() {
  local werror=OFF
  if grep -q '^LRA_WERROR:[A-Z]*=ON$' "$build/CMakeCache.txt" 2>/dev/null; then werror=ON; fi
  local settings=(-U 'MPI_*' "-DCMAKE_PREFIX_PATH=$torch/share/cmake" "-DLRA_EXTRA_VARIANTS=$extra_variants" -DLRA_BUILD_TESTS=ON)
  settings+=("-DLRA_CUDA=$([[ $with_cuda == on ]] && echo ON || echo OFF)")
  # Another compiler's new warnings are no reason for a user to have no program.
  if [[ -n ${CI:-} ]]; then settings+=(-DLRA_WERROR=ON); else settings+=("-DLRA_WERROR=$werror"); fi
  # An environment's own libraries would be linked, and go with it.
  if [[ -n ${CONDA_PREFIX:-} ]] && command -v dpkg-query >/dev/null; then settings+=("-DCMAKE_IGNORE_PREFIX_PATH=$CONDA_PREFIX"); fi
  if [[ -n $cuda ]]; then
    settings+=("-DCUDAToolkit_ROOT=$cuda" "-DCUDA_TOOLKIT_ROOT_DIR=$cuda" "-DCMAKE_CUDA_COMPILER=$cuda/bin/nvcc")
  fi
  # With the rest it is written once this is done; what was asked for stays remembered.
  printf '%s\n' "$torch" "$cuda" >"$build/.torch"
  (cd "$root" && cmake --preset release "${settings[@]}") >>"$log" 2>&1
}

# Everything but the lock that this call holds, and what was asked for.
empty_build() {
  find "$build" -mindepth 1 -maxdepth 1 ! -name .lock ! -name .cuda ! -name .torch -exec rm -rf {} +
}

# A compiler of LibTorch's headers and 27 files takes up to 2.6 GB.
job_count() {
  if [[ -n ${LRA_BUILD_JOBS:-} ]]; then
    [[ $LRA_BUILD_JOBS =~ ^[1-9][0-9]*$ ]] || die "LRA_BUILD_JOBS is '$LRA_BUILD_JOBS', expected a number from 1"
    echo "$LRA_BUILD_JOBS"
    return
  fi
  awk -v cores="$(nproc)" -v free="$(group_memory)" '
    /^MemAvailable/ { kib = $2; if (free != "" && free < kib) kib = free; n = int(kib / 2621440) }
    END { print n < 1 ? 1 : n < cores ? n : cores }' /proc/meminfo
}

# The KiB that the nearest limits of this process's control groups leave; nothing where there is none. A container sees its
# group as the root, and the memory of the whole machine.
group_memory() {
  local group folder limit used left least=
  for group in $(sed -n 's/^0::\(.*\)/\1/p; s/^[0-9]*:memory:\(.*\)/\/memory\1/p' /proc/self/cgroup 2>/dev/null); do
    folder=/sys/fs/cgroup$group
    while [[ $folder == /sys/fs/cgroup* ]]; do
      limit=$(cat "$folder/memory.max" "$folder/memory.limit_in_bytes" 2>/dev/null | head -n 1)
      used=$(cat "$folder/memory.current" "$folder/memory.usage_in_bytes" 2>/dev/null | head -n 1)
      # The limit that is none is a number of 19 digits in version 1.
      if [[ $limit =~ ^[0-9]{1,18}$ && $used =~ ^[0-9]+$ ]]; then
        left=$(((limit - used) / 1024))
        if [[ -z $least ]] || ((left < least)); then least=$left; fi
      fi
      folder=${folder%/*}
    done
  done
  echo "$least"
}

# Ninja's lines into the log; for the user a line that is written over on a terminal, else one a minute.
progress() {
  local line shown=$SECONDS
  while IFS= read -r line; do
    printf '%s\n' "$line" 2>/dev/null >>"$log" || true  # A full disk is told at the end.
    if [[ ! $line =~ ^\[([0-9]+/[0-9]+)\] ]]; then continue; fi
    if [[ -t 2 ]]; then
      printf '\rrun: build: %s ' "${BASH_REMATCH[1]}" >&2
    elif ((SECONDS - shown >= 60)); then
      say "build: ${BASH_REMATCH[1]}"
      shown=$SECONDS
    fi
  done
  if [[ -t 2 ]]; then printf '\r\033[K' >&2; fi
}

run_ninja() {
  # Whatever language compilers speak: what they say is looked for.
  LC_ALL=C.UTF-8 ninja -C "$build" -j "$1" "$2" 2>&1 | progress
}

compile() {
  local target=lra workers
  if [[ $1 == tests ]]; then target=all; fi
  workers=$(job_count)
  say "build: bringing $build up to date with $workers jobs (fewer: LRA_BUILD_JOBS), log in $log"
  if run_ninja "$workers" "$target"; then return; fi
  # A mistake in a source file is the user's to mend; a build folder that Ninja or the linker cannot read is ours.
  # Compilers quote sources, which may say what linkers do.
  if ninja -C "$build" -n "$target" >/dev/null 2>&1 &&
    { grep -qE '(:[0-9]+(:[0-9]+)?|\([0-9]+\)): (fatal )?error' "$log" || ! grep -qiE 'file truncated|file format not recognized|malformed' "$log"; }; then
    failed "the build failed"
  fi
  say "build: the build folder is damaged, once more from nothing"
  empty_build
  configure
  run_ninja "$workers" "$target" || failed "the build failed"
}

# set_up GOAL (program, tests): all steps, then the mark that up_to_date() looks for.
set_up() {
  # What the folder remembers is read and changed by one call at a time.
  one_at_a_time "$build/.lock" 8
  ask_cuda
  if [[ -z $(unwritable "$cache") ]]; then
    one_at_a_time "$cache/lock" 9
  elif [[ -z $wanted_torch || $wanted_torch == pip ]] && ! finds_torch "$cache/venv" && ! finds_torch "$cache/venv-cpu"; then
    need_writable "$cache"
  fi  # Else all is there already.
  install_packages
  choose_with_cuda
  choose_torch
  choose_cuda
  exec 9>&-
  echo "$asked_cuda" >"$build/.cuda"
  if ! up_to_date "$1"; then  # Another call may have built it meanwhile.
    local started ready=(program)
    if [[ $1 == tests ]]; then ready+=(tests); fi
    started=$(date +%s.%N)
    rm -f "$build"/.ready-*
    : >"$log"
    if [[ -n $cuda ]]; then export CUDA_HOME=$cuda CUDACXX=$cuda/bin/nvcc CUDAToolkit_ROOT=$cuda; fi
    configure
    compile "$1"
    # A program cut short by a full disk or a crash is newer than all its parts: Ninja takes it for good.
    local said
    if ! said=$("$program" --version 2>&1 >/dev/null); then
      # It starts, and refuses what was built in.
      if [[ $said == 'lra: '* ]]; then
        printf '%s\n' "$said" >&2
        exit 1
      fi
      rm -f "$program"
      run_ninja 1 lra || failed "the build failed"
      "$program" --version >/dev/null || die "the program does not start (above: why); make it anew with: rm -rf '$build'"
    fi
    for goal in "${ready[@]}"; do
      printf '%s\n' "$torch" "asked=$wanted_torch" "extra=$extra_variants" "$(made_now "$torch")" "cuda=$asked_cuda $with_cuda" "root=$root" \
        >"$build/.ready-new"
      touch -d "@$started" "$build/.ready-new"  # What was edited during the build is newer.
      mv "$build/.ready-new" "$build/.ready-$goal"
    done
  fi
  exec 8>&-
}
