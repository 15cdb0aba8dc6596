# ./optrush wheel
# shellcheck shell=bash

wheel_usage() {
  cat <<'TEXT'
usage: ./optrush wheel [--out FOLDER]

Builds, and writes dist/optimization_rush-VERSION+torchX.Y-py3-none-linux_x86_64.whl: programs, plugins, experiments
and the SDK, for machines without root or packages. pip install it beside torch X.Y there. OPTRUSH_TORCH and
OPTRUSH_PYTHON choose the torch (./optrush --help).
TEXT
}

# Installs the packing tools into .venv, because the tests also make a wheel.
wheel_packages() {
  stamp_is requirements-wheel "$(python_inputs requirements-wheel)" ||
    step "Python packages for the wheel:" install_requirements requirements-wheel
}

# Does not return.
wheel_command() {
  local out=$root/dist
  while (($#)); do
    case $1 in
      -h | --help) wheel_usage && exit ;;
      --out) [[ -n ${2:-} ]] || fail "--out takes a folder"; out=$2 && shift ;;
      *) fail "there is no option '$1'" "see ./optrush wheel --help" ;;
    esac
    shift
  done
  choose_torch
  lock
  set_up
  wheel_packages
  unlock
  unset OPTRUSH_PYTHON OPTRUSH_TORCH
  exec "$venv/bin/python" "$root/packaging/make_wheel.py" --build "$build" --out "$out"
}
