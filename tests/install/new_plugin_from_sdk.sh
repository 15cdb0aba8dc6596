# Installs to a folder, then writes a plugin as its author would: new-plugin, configure, build, run a ladder. The
# programs of the prefix run with an empty environment, so they cannot use the source or build tree.
# shellcheck shell=bash
set -euo pipefail
cmake=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
prefix=$work/prefix
# A ladder begins with a measurement of the machine, of 12 s by default.
clean() { env -i PATH="$PATH" HOME="$work" LANG=C.UTF-8 OPTRUSH_PROBE_SECONDS="$OPTRUSH_PROBE_SECONDS" "$@"; }

"$cmake" --install "$OPTRUSH_BUILD_DIR" --prefix "$prefix" >"$work/install.log"
for part in bin/optrush bin/optrush-worker lib/liboptrush.so include/optrush/plugin.h include/optrush/sdk_hash.h \
  share/optrush/experiments/quickstart.lua; do
  [[ -e $prefix/$part ]] || { echo "not installed: $part" && exit 1; }
done

cd "$work"
clean "$prefix/bin/optrush" new-plugin wide_swiglu
clean "$cmake" -S wide_swiglu -B wide_swiglu/build -G Ninja -DCMAKE_PREFIX_PATH="$prefix"
clean "$cmake" --build wide_swiglu/build
described=$(clean "$prefix/bin/optrush" plugins wide_swiglu --plugin-path wide_swiglu/build/plugins)
[[ $described == *"SwiGLU in a wider type"* ]] || { echo "not described: $described" && exit 1; }
clean "${cmake%cmake}ctest" --test-dir wide_swiglu/build --output-on-failure

# A plugin with a GPU kernel: without a GPU it trains in its CPU form. It compiles for three architectures everywhere.
clean "$prefix/bin/optrush" new-plugin fast_swiglu --kernel
clean "$cmake" -S fast_swiglu -B fast_swiglu/build -G Ninja -DCMAKE_PREFIX_PATH="$prefix"
clean "$cmake" --build fast_swiglu/build
clean "${cmake%cmake}ctest" --test-dir fast_swiglu/build --output-on-failure

# An optimizer plugin with a name that the SDK uses too. Its ladder asks for the time to a loss.
clean "$prefix/bin/optrush" new-plugin optimizer --optimizer
clean "$cmake" -S optimizer -B optimizer/build -G Ninja -DCMAKE_PREFIX_PATH="$prefix"
clean "$cmake" --build optimizer/build
clean "${cmake%cmake}ctest" --test-dir optimizer/build --output-on-failure
grep -q "time to loss" optimizer/build/reports/optimizer/local/report.md

# The build tree is a prefix too. Its plugins folder does not change.
built=$OPTRUSH_BUILD_DIR/bin/optrush
sdk=$(clean "$built" sdk)
clean "$built" new-plugin from_build_tree
clean "$cmake" -S from_build_tree -B from_build_tree/build -G Ninja -DCMAKE_PREFIX_PATH="$sdk"
clean "$cmake" --build from_build_tree/build
clean "${cmake%cmake}ctest" --test-dir from_build_tree/build --output-on-failure
grep -q "OPTRUSH_INSTALL_PLUGINS \"plugins\"" "$sdk/lib/cmake/OptimizationRush/OptimizationRushConfig.cmake"

# Installed beside the shipped plugins, the plugin is found without a path.
clean "$cmake" --install wide_swiglu/build --prefix "$prefix"
[[ $(clean "$prefix/bin/optrush" plugins) == *wide_swiglu* ]] || { echo "not found once installed" && exit 1; }

# A plugin that was built against other headers is refused by name.
sed -i 's/"[0-9a-f]*"/"0000000000000000"/' "$prefix/include/optrush/sdk_hash.h"
clean "$cmake" --build wide_swiglu/build
refusal=$(clean "$prefix/bin/optrush" plugins --plugin-path wide_swiglu/build/plugins 2>&1 || true)
expected=("plugin 'wide_swiglu' was built for a different host" "headers of the SDK: plugin 0000000000000000")
[[ $refusal == *"${expected[0]}"*"${expected[1]}"* ]] ||
  { echo "not refused: $refusal" && exit 1; }

if clean "$prefix/bin/optrush" new-plugin Wide-Swiglu 2>refused; then echo "a bad name was taken" && exit 1; fi
grep -q "start with a lower-case letter" refused
