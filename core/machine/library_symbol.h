#pragma once
#include <dlfcn.h>

namespace optrush {
/// A function of a library that is opened at run time, of the type that its user declares; null: it has none.
struct LibrarySymbol {
  LibrarySymbol(void* library, const char* name) : address(dlsym(library, name)) {}
  template <class F>
  operator F*() const {  // NOLINT(google-explicit-constructor): as above
    return reinterpret_cast<F*>(address);
  }
  void* address;
};
}  // namespace optrush
