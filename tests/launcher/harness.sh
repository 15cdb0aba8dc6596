# Copies the launcher to a temporary folder and replaces every system command that it may call by a stub, which records
# its call. Nothing of the real machine changes, and no network is used.
# shellcheck shell=bash
set -uo pipefail

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
project=$work/project bin=$work/bin calls=$work/calls
mkdir -p "$project" "$bin"
: >"$calls"
cp -r "$OPTRUSH_SOURCE_DIR/optrush" "$OPTRUSH_SOURCE_DIR/setup" "$project"

for tool in awk bash basename cat chmod cp date df dirname env flock grep head mkdir mv nproc paste readlink rm sed \
  sleep tail touch tr uname uniq wc; do
  ln -s "$(command -v "$tool")" "$bin/$tool"
done

# stub NAME BODY: a command that records itself, then runs BODY.
stub() {
  printf '#!/bin/bash\necho "%s $*" >>"%s"\n%s\n' "$1" "$calls" "$2" >"$bin/$1"
  chmod +x "$bin/$1"
}

# A machine where everything works. Each case removes or breaks one part.
stub id 'echo 1000'
stub apt-get ''
stub sudo '[ "$1" = -n ] || [ "$1" = -v ] || exec "$@"'
stub dpkg-query "cat $work/installed"
sed '/^#/d; s/^/ii /' "$OPTRUSH_SOURCE_DIR/setup/packages.txt" >"$work/installed"
# shellcheck disable=SC2016
stub python3 'case "$*" in
  *version_info*) exit 0 ;;
  "-m venv"*) mkdir -p "$4/bin" "$4/lib/python3.11/site-packages" && cp "$0" "$4/bin/python" ;;
  *find_spec*) echo '"$work"'/torch ;;
  *purelib*) echo /own/site-packages ;;
esac'
# shellcheck disable=SC2016
stub cmake 'while [ "$1" != -B ]; do shift; done; mkdir -p "$2" && touch "$2/build.ninja" "$2/CMakeCache.txt"'
# shellcheck disable=SC2016
stub ninja 'case "$*" in
  *" -t query "*) ;; # no inputs of CMake
  *" -n"*) [ -x "$2/bin/optrush" ] && echo "ninja: no work to do." || echo "[1/1] program" ;;
  *) mkdir -p "$2/bin"; printf "#!/bin/bash\necho program: \"\$@\"\nexit 7\n" >"$2/bin/optrush"
     chmod +x "$2/bin/optrush" ;;
esac'

# make_torch DIR 2 11 0: the files that the launcher reads from a LibTorch.
make_torch() {
  mkdir -p "$1/lib" "$1/include/torch/headeronly"
  touch "$1/lib/libtorch_cpu.so"
  printf '#define TORCH_VERSION_%s %s\n' MAJOR "$2" MINOR "$3" PATCH "$4" >"$1/include/torch/headeronly/version.h"
}
make_torch "$work/torch" 2 11 0

# start [NAME=VALUE...] [ARGUMENTS...]: starts the launcher; sets status, out and err.
start() {
  local settings=()
  while [[ ${1:-} == *=* ]]; do
    settings+=("$1")
    shift
  done
  env -i PATH="$bin" HOME="$work" "${settings[@]}" "$project/optrush" "$@" >"$work/out" 2>"$work/err" </dev/null
  status=$? out=$(<"$work/out") err=$(<"$work/err")
}

failures=0
expect() {
  local what=$1
  shift
  "$@" && return
  printf 'failed: %s\n--- status %s, stdout:\n%s\n--- stderr:\n%s\n--- calls:\n%s\n' "$what" "$status" "$out" "$err" \
    "$(<"$calls")"
  failures=$((failures + 1))
}
is() { [[ $1 == "$2" ]]; }
has() { [[ $1 == *"$2"* ]]; }
lacks() { [[ $1 != *"$2"* ]]; }
fails() { ! "$@"; }
