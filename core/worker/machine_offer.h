#pragma once
#include "machine/python.h"
#include "optrush/spec.h"
#include "plugin/description.h"
#include "plugin/needs.h"

namespace optrush {
/// Capabilities of this machine for plugins, with `python` as its Python.
MachineOffer machine_offer(const PythonTools& python);
/// A Skip where a plugin of the spec needs what this machine lacks; before any plugin is loaded.
void check_needs(const RunSpec&, const Catalogue&);
}  // namespace optrush
