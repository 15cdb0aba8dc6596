# Configure and build.
# shellcheck shell=bash

# In kB. A container may have less than the machine.
available_memory() {
  local limit=max available
  available=$(awk '/MemAvailable/ { print $2 }' /proc/meminfo)
  [[ ! -r /sys/fs/cgroup/memory.max ]] || read -r limit </sys/fs/cgroup/memory.max
  [[ $limit == max ]] || ((limit / 1024 > available)) || available=$((limit / 1024))
  echo "$available"
}

# A compiler that reads torch's headers takes up to 1.5 GB.
build_jobs() {
  local most=${1:-$(nproc)} memory
  memory=$(($(available_memory) / 1500000))
  echo $((memory < 1 ? 1 : memory < most ? memory : most))
}

# True if no input of CMake has changed since it wrote build.ninja. A dry run of ninja does not tell: it takes every glob
# for changed, and ends there.
build_files_current() {
  local input verify=$build/CMakeFiles/VerifyGlobs.cmake
  [[ ! -f $verify ]] || cmake -P "$verify" >/dev/null 2>&1 || return # touches a file if a glob has changed
  while read -r input; do
    [[ $input == /* ]] || input=$build/$input
    [[ -e $input && ! $input -nt $build/build.ninja ]] || return
  done < <(ninja -C "$build" -t query build.ninja 2>/dev/null | sed -n '/^  outputs/q; s/^    [| ]*//p')
}

# True if the program is built and up to date. Under its absolute name, build.ninja is no target of ninja.
build_current() {
  [[ -x $build/bin/optrush ]] && stamp_is "configure-${build##*/}" "$(configure_inputs)" && build_files_current &&
    [[ $(ninja -C "$build" -f "$build/build.ninja" -n "$@" 2>/dev/null) == *"no work to do"* ]]
}

# The results of CMake depend on the environment, so a change of it configures again.
configure_inputs() { printf '%s\n' "$root" "$(python_inputs requirements)" "${configure_options[@]}"; }

# Clones share the cache, because paths below the root are relative in it.
export CCACHE_BASEDIR=$root CCACHE_NOHASHDIR=1

configure() {
  locate_torch
  logged cmake --fresh -S "$root" -B "$build" -G Ninja "-DOPTRUSH_TORCH=$torch_dir" "${configure_options[@]}"
  if grep -q '^OPTRUSH_CUDA_.*NOTFOUND' "$build/CMakeCache.txt"; then
    say "CUDA's headers are not beside this torch, so the programs will run on the CPU only."
    say "  To change that, in torch's Python environment: pip install 'cuda-toolkit[cudart,crt,cccl]==<torch's CUDA version>'"
  fi
  stamp "configure-${build##*/}" "$(configure_inputs)"
}

# build TARGETS...: ninja shows its own progress on a terminal.
build() {
  if [[ ! -f $build/build.ninja ]] || ! stamp_is "configure-${build##*/}" "$(configure_inputs)"; then configure; fi
  if on_terminal; then
    ninja -C "$build" -j "$(build_jobs)" "$@" >&2 || fail "the build failed" "the first error is after the first line FAILED"
  else
    logged ninja -C "$build" -j "$(build_jobs)" "$@"
  fi
}
