#pragma once
#include <torch/headeronly/version.h>

/// Whether the build uses this LibTorch or a newer one. Only headers of this folder ask;
/// docs/internals/torch_versions.md lists the differences.
#define OPTRUSH_TORCH_AT_LEAST(major, minor) \
  (TORCH_VERSION_MAJOR > (major) || (TORCH_VERSION_MAJOR == (major) && TORCH_VERSION_MINOR >= (minor)))
