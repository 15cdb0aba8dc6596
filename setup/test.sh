# ./optrush test
# shellcheck shell=bash

test_usage() {
  cat <<'TEXT'
usage: ./optrush test [--quick] [--sanitize[=thread]] [CTEST ARGUMENTS]

  --quick      without the tests labelled slow
  --sanitize   the same tests under AddressSanitizer and UndefinedBehaviorSanitizer, in build-sanitize
  --sanitize=thread  under ThreadSanitizer, in build-sanitize-thread: for the tests with threads, `-L threads`
  -L parity, -R worker, --rerun-failed, ...: any argument of ctest; `ctest --print-labels` in build/ lists the labels
TEXT
}

# If a program of a style check cannot be installed, the check is skipped, because it does not test the build.
style_packages() {
  local missing
  [[ -z ${OPTRUSH_NO_APT:-} ]] && command -v apt-get >/dev/null || return 0
  if apt_prefix; then
    install_packages packages-test
    ! apt-cache policy chromium 2>/dev/null | grep -q 'Candidate: [0-9]' || install_listed "$root/setup/packages-browser.txt"
  else
    find_missing_packages "$root/setup/packages-test.txt"
    ((${#missing[@]} == 0)) || say "not installed, so the checks that need them are skipped: ${missing[*]}"
  fi
}

set_up_tests() {
  packages_current packages || step "system packages:" system_packages
  packages_current packages-test || step "packages for style checks:" style_packages
  stamp_is requirements "$(python_inputs requirements)" || step "Python environment:" python_environment
  stamp_is requirements-test "$(python_inputs requirements-test)" ||
    step "Python packages for tests:" install_requirements requirements-test
  wheel_packages
  remember_torch
  build_current all optrush-tests || step "build with tests:" build all optrush-tests
}

# sanitized_build KIND SUFFIX: every kind has a separate build folder.
sanitized_build() {
  build=$root/build-sanitize$2
  configure_options=(-DCMAKE_BUILD_TYPE=RelWithDebInfo "-DOPTRUSH_SANITIZE=$1" -DOPTRUSH_UNITY=ON)
}

# Tests make and remove many files, which costs less in memory than on a disk. Sets TMPDIR to a new folder there if there
# is enough memory, and if programs can start from it. The lock lasts until the last process of the tests has ended.
temporary_folder_in_memory() {
  local shm=/dev/shm free folder other fd
  [[ -z ${TMPDIR:-} ]] && free=$(df --output=avail -k "$shm" 2>/dev/null | tail -n 1) &&
    ((free > 8000000 && $(available_memory) > 16000000)) || return 0
  for other in "$shm"/optrush-tests-*; do # left by a run that was killed
    [[ ! -O $other ]] || flock --nonblock "$other" rm -rf "$other" || true
  done
  folder=$(mktemp -d "$shm/optrush-tests-XXXXXX") || return 0
  # shellcheck disable=SC2064
  trap "rm -rf '$folder'" EXIT
  exec {fd}<"$folder"
  flock --shared "$fd"
  printf '#!/bin/sh\n' >"$folder/program" && chmod +x "$folder/program"
  "$folder/program" 2>/dev/null || return 0
  rm "$folder/program"
  export TMPDIR=$folder
}

# Does not return: exits with the exit code of ctest.
test_command() {
  local start=$SECONDS status=0 arguments=() sanitizer=()
  while (($#)); do
    case $1 in
      -h | --help) test_usage && exit ;;
      --quick) arguments+=(-LE slow) ;;
      --sanitize | --sanitize=address)
        sanitized_build address ""
        sanitizer=(ASAN_OPTIONS=strict_string_checks=1:detect_stack_use_after_return=1
          LSAN_OPTIONS="suppressions=$root/tests/sanitizers/leak.supp:print_suppressions=0"
          UBSAN_OPTIONS="suppressions=$root/tests/sanitizers/undefined.supp:print_stacktrace=1:halt_on_error=1")
        ;;
      --sanitize=thread)
        sanitized_build thread -thread
        sanitizer=(TSAN_OPTIONS="suppressions=$root/tests/sanitizers/thread.supp:halt_on_error=1:second_deadlock_stack=1")
        ;;
      *) arguments+=("$1") ;;
    esac
    shift
  done
  choose_torch
  lock
  set_up_tests
  unlock
  unset OPTRUSH_PYTHON OPTRUSH_TORCH
  temporary_folder_in_memory
  # Each test uses two threads, so that tests that run at the same time do not compete for the cores. Some tests wait for
  # processes or time limits, so two tests per core run at the same time.
  env "${sanitizer[@]}" OMP_NUM_THREADS="${OMP_NUM_THREADS:-2}" ctest --test-dir "$build" -j "$(build_jobs $(($(nproc) * 2)))" \
    --output-on-failure --no-tests=error --test-output-size-passed 1000000 --output-junit "$build/tests.xml" "${arguments[@]}" || status=$?
  "$venv/bin/python" "$root/setup/summary.py" "$build/tests.xml" "$(duration $((SECONDS - start)))" || status=$?
  exit "$status"
}
