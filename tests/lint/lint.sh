# lint.sh CHECK: runs one check over the tracked files. Exit code 77: the tool of the check is not installed.
# shellcheck shell=bash
set -euo pipefail
shopt -s nullglob
cd "$OPTRUSH_SOURCE_DIR"

tracked() { git -c safe.directory="$PWD" ls-files -- "$@"; }
need() {
  command -v "$1" >/dev/null && return
  echo "$1 is not installed"
  exit 77
}

check_clang_format() {
  local program=clang-format-14
  if ! command -v $program >/dev/null && [[ $(clang-format --version 2>/dev/null) == *" version 14."* ]]; then
    program=clang-format
  fi
  need $program
  tracked '*.h' '*.cpp' | xargs -r $program --dry-run --Werror
}

check_luacheck() {
  need luacheck
  tracked '*.lua' | xargs -r luacheck --quiet
}

check_shellcheck() {
  need shellcheck
  shellcheck -x -S warning optrush .ci/run .ci/other_torch
  tracked '*.sh' | grep -v '^setup/' | xargs -r shellcheck -x -S warning
}

# Lines of Python have at most 120 columns. Python counts them, because grep may count bytes.
check_python_lines() {
  tracked '*.py' | xargs -r python3 -c '
import sys
long = [f"{file}:{number}: {len(line)} columns" for file in sys.argv[1:]
        for number, line in enumerate(open(file, encoding="utf-8").read().split("\n"), 1) if len(line) > 120]
sys.exit("\n".join(long) or None)'
}

# Techniques come from plugins: no file of core names one. Some plugins have the name of a phase. For these, core must
# not use the phase, compare with the name, or quote it as a plugin's name.
check_names_of_techniques() {
  local folder name pattern found=0
  for folder in plugins/optimizations/*/ plugins/parallelism/*/; do
    name=$(basename "$folder")
    pattern="\\b$name\\b"
    if grep -qw "$name" core/include/optrush/edit.h; then pattern="Phase::$name\\b|'$name'|(==|!=|\\() *\"$name\""; fi
    if tracked core | xargs -r grep -nE "$pattern"; then found=1; fi
  done
  return $found
}

# clang 14 cannot compile the views of GCC 12's library.
check_clang_14() {
  local views='std::(ranges::)?views::|std::ranges::(subrange|partition)\b'
  ! tracked core plugins tools bench tests | grep -E '[.](h|cpp)$' | xargs grep -nE "$views"
}

# A test runs only if the CMakeLists.txt above it names it.
check_every_test_is_run() {
  local file name folder found=0
  while read -r file; do
    name=$(basename "$file") folder=$(dirname "$file")
    [[ -f $folder/CMakeLists.txt ]] || folder=$(dirname "$folder")
    # The file names a test in full or, in a list, by the first part of its name. Dependencies of a test do not count.
    # grep has no -q, because it would close the pipe early and perl would fail to write.
    perl -0pe 's/#.*//g; s/add_dependencies\(.*?\)//gs; s/DEPENDS [^)]*//g; s/NAME \S+//g' "$folder/CMakeLists.txt" |
      grep -E "\b${name//./[.]}|(^|[ (])${name%_test.*}([ )]|$)" >/dev/null || { echo "nothing runs $file" && found=1; }
  done < <(tracked tests | grep -E '_(test|parity)[.](cpp|py)$')
  return $found
}

# mkdocs reports a page that the navigation lacks, and a link or anchor without a target.
check_documentation() {
  local python=.optrush/docs/bin/python
  [[ -x $python ]] || { echo "mkdocs is not installed: ./optrush docs installs it" && exit 77; }
  folder=$(mktemp -d)
  trap 'rm -rf "$folder"' EXIT
  NO_MKDOCS_2_WARNING=1 $python -m mkdocs build --strict --site-dir "$folder"
}

need git
tracked optrush >/dev/null 2>&1 || { echo "this is not a git checkout" && exit 77; }
"check_$1"
