# Python, the virtual environment, and the LibTorch that is built against.
# shellcheck shell=bash

venv=$root/.venv
# The first is the torch of .venv (requirements.txt). docs/internals/torch_versions.md says how to add a version.
tested_torch=(2.15 2.11)

has_torch() {
  "$1" -c 'import importlib.util, sys; sys.exit(importlib.util.find_spec("torch") is None)' >/dev/null 2>&1
}

# Chooses the torch, from the environment or from the stored choice: sets own_torch and own_python. An empty variable goes
# back to the torch of the project.
choose_torch() {
  own_torch='' own_python=''
  if [[ -n ${OPTRUSH_TORCH+set} || -n ${OPTRUSH_PYTHON+set} ]]; then
    own_torch=${OPTRUSH_TORCH:-} own_python=${OPTRUSH_PYTHON:-}
    # Fails before anything is changed.
    [[ -z $own_python ]] || ! python_fits "$own_python" || has_torch "$own_python" ||
      fail "OPTRUSH_PYTHON=$own_python has no torch" "install torch $tested_torch there, or leave OPTRUSH_PYTHON out"
  elif [[ -f $state/torch ]]; then
    read -r torch_choice <"$state/torch"
    own_torch=${torch_choice#torch=} own_python=${torch_choice#* python=}
    own_torch=${own_torch%% python=*}
  fi
  torch_choice="torch=$own_torch python=$own_python"
}

remember_torch() { printf '%s\n' "$torch_choice" >"$state/torch"; }

# python_fits COMMAND: 3.10 is the oldest that works; torch has wheels up to 3.14.
python_fits() {
  "$1" -c 'import sys; sys.exit(not (3, 10) <= sys.version_info < (3, 15))' >/dev/null 2>&1
}

find_python() {
  local name
  if [[ -n $own_python ]]; then
    python_fits "$own_python" || fail "OPTRUSH_PYTHON=$own_python is not a Python 3.10 to 3.14"
    python=$own_python
    return
  fi
  for name in python3 python3.{14,13,12,11,10} python; do
    if command -v "$name" >/dev/null && python_fits "$name"; then
      python=$(command -v "$name")
      return
    fi
  done
  fail "no Python 3.10 to 3.14 was found (looked for python3, python3.10 … python3.14, python)" \
    "install one (apt-get install python3 python3-venv), or name one with a torch in it: OPTRUSH_PYTHON=/path/to/python"
}

# The folder of the torch to build against: sets torch_dir.
locate_torch() {
  if [[ -n $own_torch ]]; then
    torch_dir=$(readlink -f "$own_torch") || torch_dir=$own_torch
    if [[ ! -f $torch_dir/lib/libtorch_cpu.so ]]; then
      local inner hint="give the folder of an unpacked LibTorch, or of a Python torch package"
      for inner in torch libtorch; do
        [[ ! -f $torch_dir/$inner/lib/libtorch_cpu.so ]] || hint="did you mean OPTRUSH_TORCH=$torch_dir/$inner?"
      done
      fail "OPTRUSH_TORCH=$own_torch is not a LibTorch: lib/libtorch_cpu.so is not there" "$hint"
    fi
  else
    local from=${own_python:-$venv/bin/python}
    torch_dir=$("$from" -c 'import importlib.util as u; print(u.find_spec("torch").submodule_search_locations[0])' \
      2>/dev/null) || fail "$from has no torch" "install torch $tested_torch there, or leave OPTRUSH_PYTHON empty"
  fi
}

torch_version() {
  sed -n 's/^#define TORCH_VERSION_\(MAJOR\|MINOR\|PATCH\) \([0-9]*\)$/\2/p' \
    "$torch_dir/include/torch/headeronly/version.h" 2>/dev/null | paste -sd .
}

check_torch_version() {
  local version
  version=$(torch_version)
  [[ -n $version ]] || fail "$torch_dir holds a torch older than any that can work (tested: ${tested_torch[*]})" \
    "take torch $tested_torch, or leave OPTRUSH_TORCH and OPTRUSH_PYTHON empty"
  if [[ " ${tested_torch[*]} " != *" ${version%.*} "* ]]; then
    say "warning: torch $version in $torch_dir is not a tested version (${tested_torch[*]}): it may not build, or run otherwise"
  fi
}

requirements() {
  if [[ -n $own_torch$own_python ]]; then
    listed "$root/setup/$1.txt" | sed '/^torch==/d; /^cuda-toolkit/d'
  else
    listed "$root/setup/$1.txt"
  fi
}

python_inputs() { printf '%s\n%s' "$torch_choice" "$(<"$root/setup/$1.txt")"; }

# If a package has no INSTALLER, an earlier set-up ended while pip unpacked it, and pip must not treat it as installed.
drop_half_installed() {
  local info
  for info in "$venv"/lib/python3.*/site-packages/*.dist-info; do
    [[ ! -d $info || -f $info/INSTALLER ]] || rm -rf "$info"
  done
}

warn_if_disk_is_short() {
  local free
  free=$(df --output=avail -k "$root" | tail -n 1)
  ((free > 9000000)) || say "warning: $((free / 1000000)) GB are free here; torch with its CUDA libraries and the build take about 8"
}

# Each choice of torch has a separate virtual environment.
venv_current() {
  local choice="torch= python="
  [[ ! -f $venv/torch_choice ]] || choice=$(<"$venv/torch_choice")
  [[ $choice == "$torch_choice" ]] && "$venv/bin/python" -m pip --version >/dev/null 2>&1
}

make_venv() {
  local python
  find_python
  logged "$python" -m venv --clear "$venv"
  printf '%s\n' "$torch_choice" >"$venv/torch_choice"
  if [[ -n $own_python ]]; then
    # The environment also uses the packages of the chosen Python, after its own packages.
    "$own_python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))' \
      >"$(echo "$venv"/lib/python3.*/site-packages)/own_torch.pth"
  fi
}

# install_requirements requirements|requirements-test: the venv holds exactly the versions that are listed.
install_requirements() {
  venv_current || make_venv
  [[ -n $own_torch$own_python || $1 != requirements ]] || warn_if_disk_is_short
  drop_half_installed
  requirements "$1" >"$state/$1.txt"
  say "installing into .venv: $(sed 's/[;=].*//' "$state/$1.txt" | uniq | paste -sd ' ')"
  # Python compiles a file when it is first imported. To compile all 10,000 files here would take half a minute.
  logged "$venv/bin/python" -m pip install --disable-pip-version-check --progress-bar off --no-compile -r "$state/$1.txt"
  stamp "$1" "$(python_inputs "$1")"
}

python_environment() {
  install_requirements requirements
  locate_torch
  check_torch_version
}
