#pragma once
// The identity of a build, as text. C++ has no stable binary interface, so a plugin and its host must be
// built alike. Both form the text from the compiler's macros, and the host compares the texts.
#include <cstddef>  // for _GLIBCXX_USE_CXX11_ABI

#include "optrush/sdk_hash.h"  // OPTRUSH_SDK_HASH, made by the build from these headers

/// Version of the interface between host and plugins; 0 changes freely.
#define OPTRUSH_PLUGIN_API 0

namespace optrush {
inline constexpr int kPluginApi = OPTRUSH_PLUGIN_API;
}  // namespace optrush

#define OPTRUSH_STRINGIFY_(x) #x
#define OPTRUSH_STRINGIFY(x) OPTRUSH_STRINGIFY_(x)

#if defined(__clang__)
#define OPTRUSH_ABI_COMPILER "clang " OPTRUSH_STRINGIFY(__clang_major__)
#elif defined(__GNUC__)
#define OPTRUSH_ABI_COMPILER "gnu " OPTRUSH_STRINGIFY(__GNUC__)
#else
#define OPTRUSH_ABI_COMPILER "unknown"
#endif

#if defined(_GLIBCXX_USE_CXX11_ABI)
#define OPTRUSH_ABI_STRINGS OPTRUSH_STRINGIFY(_GLIBCXX_USE_CXX11_ABI)
#else
#define OPTRUSH_ABI_STRINGS "none"
#endif

/// "gnu 12, cxx11abi 1, c++ 202002L, torch 2.11.0, cuda 13.0, sdk 0123456789abcdef" for the source that
/// contains it. `torch` and `cuda` are the versions of LibTorch and of its CUDA, as text.
#define OPTRUSH_ABI_OF(torch, cuda)                                                            \
  OPTRUSH_ABI_COMPILER ", cxx11abi " OPTRUSH_ABI_STRINGS                                       \
                       ", c++ " OPTRUSH_STRINGIFY(__cplusplus) ", torch " torch ", cuda " cuda \
                                                               ", sdk " OPTRUSH_SDK_HASH
