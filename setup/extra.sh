# ./optrush setup NAME: installs requirements.txt, requirements-kernels.txt and packages.txt of experiments/NAME.
# shellcheck shell=bash

extra_names() {
  local file names=()
  for file in "$root"/experiments/*/requirements.txt; do
    file=${file%/requirements.txt}
    [[ ! -d $file ]] || names+=("${file##*/}")
  done
  printf '%s\n' "${names[*]}"
}

# If the tests pin a version, it is used.
extra_python_packages() {
  requirements requirements-test >"$state/constraints.txt"
  logged "$venv/bin/python" -m pip install --disable-pip-version-check --progress-bar off -r "$1" -c "$state/constraints.txt"
}

extra_system_packages() { install_listed "$1" || exit 1; }

# extra_set_up NAME
extra_set_up() {
  local folder=$root/experiments/$1
  [[ $1 != */* && -f $folder/requirements.txt ]] || fail "there is no set-up '$1'" "there are: $(extra_names)"
  local file
  for file in "$folder"/requirements.txt "$folder"/requirements-kernels.txt; do
    [[ ! -f $file ]] || step "Python packages of $1:" extra_python_packages "$file"
  done
  [[ -f $folder/packages.txt && -z ${OPTRUSH_NO_APT:-} ]] || return 0
  command -v apt-get >/dev/null ||
    fail "this system has no apt" "install the counterparts of experiments/$1/packages.txt by hand"
  step "system packages of $1:" extra_system_packages "$folder/packages.txt"
}
