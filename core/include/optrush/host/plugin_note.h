#pragma once
#include <torch/headeronly/version.h>

#include <memory>

#include "optrush/host/abi.h"

/// Ends a plugin's source: OPTRUSH_PLUGIN(Mine, R"json({"name": "mine", ...})json")
///
/// It writes the plugin's description into an ELF note, which the host reads before it loads the file
/// (docs/plugins/abi.md has the fields), and exports the function that creates the plugin.
/// optrush_add_plugin() defines OPTRUSH_TORCH_CUDA, the CUDA version of this LibTorch.
#define OPTRUSH_PLUGIN(Class, description)                                                                 \
  namespace {                                                                                              \
  constexpr char kOptrushDescription[] =                                                                   \
      "{\"api\":" OPTRUSH_STRINGIFY(OPTRUSH_PLUGIN_API) ",\"abi\":\"" OPTRUSH_ABI_OF(                      \
          TORCH_VERSION, OPTRUSH_TORCH_CUDA) "\"}\n" description;                                          \
  struct OptrushNote {                                                                                     \
    unsigned name_size = 8, description_size = sizeof(kOptrushDescription), type = 1;                      \
    char name[8] = "optrush";                                                                              \
    char text[(sizeof(kOptrushDescription) + 3) / 4 * 4] = {};                                             \
  };                                                                                                       \
  consteval OptrushNote optrush_make_note() {                                                              \
    OptrushNote note;                                                                                      \
    for (unsigned i = 0; i < sizeof(kOptrushDescription); ++i) note.text[i] = kOptrushDescription[i];      \
    return note;                                                                                           \
  }                                                                                                        \
  [[gnu::section(".note.optrush"), gnu::used, gnu::aligned(4)]] constinit const OptrushNote kOptrushNote = \
      optrush_make_note();                                                                                 \
  }                                                                                                        \
  extern "C" [[gnu::visibility("default")]] optrush::Plugin* optrush_create_plugin() {                     \
    return std::make_unique<Class>().release();                                                            \
  }                                                                                                        \
  static_assert(true)
