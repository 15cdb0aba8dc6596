# System packages, by apt.
# shellcheck shell=bash

packages_current() { stamp_is "$1" "$(<"$root/setup/$1.txt")"; }

missing_packages() {
  local known wanted
  known=" $(dpkg-query -W -f '${db:Status-Abbrev}${Package}\n' 2>/dev/null | sed -n 's/^ii *//p' | tr '\n' ' ') "
  while IFS= read -r wanted; do
    [[ $known == *" $wanted "* ]] || printf '%s\n' "$wanted"
  done < <(listed "$1")
}

# How this user may install: nothing in front (root), sudo, or not at all.
apt_prefix() {
  if ((EUID == 0)); then
    privileges=()
  elif command -v sudo >/dev/null && { [[ -t 0 ]] || sudo -n true 2>/dev/null; }; then
    privileges=(sudo)
  else
    return 1
  fi
}

# install_packages packages|packages-test
install_packages() {
  local file=$root/setup/$1.txt missing privileges
  mapfile -t missing < <(missing_packages "$file")
  if ((${#missing[@]})); then
    if ! apt_prefix; then
      say "system packages are missing, and installing them takes root or sudo. Let somebody run this, then start again:"
      printf '  apt-get update && apt-get install -y --no-install-recommends %s\n' "${missing[*]}" >&2
      return 1
    fi
    say "installing ${#missing[@]} system packages by apt${privileges[*]:+ with sudo}: ${missing[*]}"
    ((${#privileges[@]} == 0)) || sudo -v || fail "sudo refused"
    logged "${privileges[@]}" apt-get update
    logged "${privileges[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "${missing[@]}"
  fi
  stamp "$1" "$(<"$file")"
}

system_packages() {
  if [[ -n ${OPTRUSH_NO_APT:-} ]]; then
    stamp packages "$(<"$root/setup/packages.txt")"
    return
  fi
  if ! command -v apt-get >/dev/null; then
    fail "this system has no apt: Debian 12 and Ubuntu 24.04 are supported" \
      "install the counterparts of setup/packages.txt by hand, then start with OPTRUSH_NO_APT=1"
  fi
  install_packages packages || exit 1
}

# The CUDA 13 build of torch runs on a CPU everywhere, on a GPU only with driver 580 or newer.
check_driver() {
  local text='' major
  if [[ -r ${OPTRUSH_DRIVER_FILE:-/proc/driver/nvidia/version} ]]; then
    text=$(<"${OPTRUSH_DRIVER_FILE:-/proc/driver/nvidia/version}")
    [[ $text =~ [[:space:]]([0-9]{3})\.[0-9]+ ]] || return 0
  elif command -v nvidia-smi >/dev/null; then
    text=$(nvidia-smi --query-gpu=driver_version --format=csv,noheader 2>/dev/null) || return 0
    [[ $text =~ ^([0-9]{3})\. ]] || return 0
  else
    return 0
  fi
  major=${BASH_REMATCH[1]}
  ((major < 580)) || return 0
  say "the NVIDIA driver is $major, but this build of torch (CUDA 13.0) needs 580 or newer: the GPU can't be used."
  say "  Update the driver. Or install a CUDA 12 build of torch 2.11 (cu126 or cu128, as pytorch.org lists them) into a"
  say "  Python environment of your own and start once with OPTRUSH_PYTHON=<that environment>/bin/python ./optrush setup"
}
