# System packages, by apt.
# shellcheck shell=bash

packages_current() { stamp_is "$1" "$(<"$root/setup/$1.txt")"; }

# Sets `missing` to the packages of a list file that are not installed.
find_missing_packages() {
  local known wanted
  known=$(dpkg-query -W -f '${db:Status-Abbrev}${Package}\n') || fail "dpkg-query can't list the installed packages"
  missing=()
  while IFS= read -r wanted; do
    [[ $'\n'$known$'\n' == *$'\nii '"$wanted"$'\n'* ]] || missing+=("$wanted")
  done < <(listed "$1")
}

# The prefix for commands that install: none (root), sudo, or an error.
apt_prefix() {
  if (($(id -u) == 0)); then
    privileges=()
  elif command -v sudo >/dev/null && { [[ -t 0 ]] || sudo -n true 2>/dev/null; }; then
    privileges=(sudo)
  else
    return 1
  fi
}

# install_listed FILE: the packages of a list file.
install_listed() {
  local missing privileges
  find_missing_packages "$1"
  if ((${#missing[@]})); then
    if ! apt_prefix; then
      say "system packages are missing, and installing them takes root or sudo. Ask an administrator to run this, then start again:"
      printf '  apt-get update && apt-get install -y --no-install-recommends %s\n' "${missing[*]}" >&2
      return 1
    fi
    say "installing ${#missing[@]} system packages by apt${privileges[*]:+ with sudo}: ${missing[*]}"
    ((${#privileges[@]} == 0)) || sudo -v || fail "sudo refused"
    logged "${privileges[@]}" apt-get update
    logged "${privileges[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "${missing[@]}"
  fi
}

# install_packages packages|packages-test
install_packages() {
  install_listed "$root/setup/$1.txt" && stamp "$1" "$(<"$root/setup/$1.txt")"
}

system_packages() {
  if [[ -n ${OPTRUSH_NO_APT:-} ]]; then
    stamp packages "$(<"$root/setup/packages.txt")"
    return
  fi
  if ! command -v apt-get >/dev/null; then
    fail "this system has no apt: the set-up is tested on Debian 12" \
      "install the counterparts of setup/packages.txt by hand, then start with OPTRUSH_NO_APT=1"
  fi
  install_packages packages || exit 1
}

# The CUDA 13 build of torch runs on a CPU everywhere, on a GPU only with driver 580 or newer.
check_driver() {
  local text=''
  if command -v nvidia-smi >/dev/null; then
    text=$(nvidia-smi --query-gpu=driver_version --format=csv,noheader 2>/dev/null) || return 0
  elif [[ -r /proc/driver/nvidia/version ]]; then
    text=$(</proc/driver/nvidia/version)
  fi
  # "550.54.15", or a line of text with that in it
  [[ " $text" =~ [[:space:]]([0-9]{3})\.[0-9]+ ]] || return 0
  ((BASH_REMATCH[1] < 580)) || return 0
  say "the NVIDIA driver is ${BASH_REMATCH[1]}, but this build of torch (CUDA 13.0) needs 580 or newer: the GPU can't be used."
  say "  Update the driver. Or install a CUDA 12 build of torch 2.11 (cu126 or cu128, as pytorch.org lists them) into a"
  say "  Python environment of your own and start once with OPTRUSH_PYTHON=<that environment>/bin/python ./optrush setup"
}
