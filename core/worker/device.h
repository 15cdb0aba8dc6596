#pragma once
#include <c10/core/Device.h>

#include <string>

#include "machine/python.h"
#include "optrush/spec.h"
#include "plugin/description.h"
#include "plugin/needs.h"

namespace optrush {
/// "auto" is the GPU of this rank if it is usable, otherwise the CPU. Throws a Skip if "cuda" is not usable.
at::Device open_device(const std::string& name, int64_t local_rank = 0);
std::string device_name(at::Device);
/// Host name and UUID of the GPU, by which ranks notice that they share one; "" for a CPU.
std::string gpu_identity(at::Device);

/// The capabilities of this machine for plugins, with `python` as its Python.
MachineOffer machine_offer(const PythonTools& python);
/// Throws a Skip if this machine lacks what a plugin of the spec needs. Called before plugins are loaded.
void check_needs(const RunSpec&, const Catalogue&);
}  // namespace optrush
