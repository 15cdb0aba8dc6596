#pragma once
#include "machine/python.h"
#include "optrush/spec.h"
#include "plugin/description.h"
#include "plugin/needs.h"

namespace optrush {
/// The capabilities of this machine for plugins, with `python` as its Python.
MachineOffer machine_offer(const PythonTools& python);
/// Throws a Skip if this machine lacks what a plugin of the spec needs. Called before plugins are loaded.
void check_needs(const RunSpec&, const Catalogue&);
}  // namespace optrush
