"""How the code between the kernels, Inductor's wrappers, is compiled. Most of what the C++ compiler does for a wrapper
is the same for every wrapper. It is done once: precompiled headers, and an object file with the functions by which a
loader calls a model.
"""

import hashlib
import os
import tempfile
import threading
from pathlib import Path

import torch
import torch._inductor.codecache as codecache
import torch._inductor.codegen.cpp_wrapper_cpu as cpp_wrapper_cpu
import torch._inductor.cpu_vec_isa as cpu_vec_isa
from torch._inductor.cpp_builder import CppBuilder, CppTorchDeviceOptions


TORCHS_HEADER = codecache._get_cpp_wrapper_header
DEVICE_IN_TORCH = 'std::regex re("(cpu|cuda|xpu|mps)(:([0-9]+))?");'
DEVICE_WITHOUT_REGEX = """\
#pragma once
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>
#ifdef __GLIBCXX__
#define _GLIBCXX_REGEX 1  // <regex> is empty after this
namespace std {
struct smatch {
  struct Part {
    string text;
    bool matched = false;
    const string& str() const { return text; }
  };
  Part parts[4];
  const Part& operator[](size_t i) const { return parts[i]; }
};
struct regex {
  explicit regex(const char*) {}
};
inline bool regex_match(const string& text, smatch& found, const regex&) {
  const size_t colon = text.find(':');
  const string type = text.substr(0, colon), index = colon == string::npos ? "" : text.substr(colon + 1);
  if (type != "cpu" && type != "cuda" && type != "xpu" && type != "mps") return false;
  if (colon != string::npos && (index.empty() || index.find_first_not_of("0123456789") != string::npos)) return false;
  found.parts[1] = {type, true};
  if (colon != string::npos) found.parts[3] = {index, true};
  return true;
}
}  // namespace std
#endif
"""


def read_devices_without_regex():
    """A wrapper reads the name of its device by std::regex, whose templates are half of what the compiler does for a
    wrapper. The header that is precompiled for wrappers reads it by hand, where torch has the one expression that is
    known here."""
    base = Path(torch.__file__).parent / "include/torch/csrc/inductor/aoti_runtime/model_base.h"
    text = base.read_text() if base.is_file() else ""
    if DEVICE_IN_TORCH not in text or text.count("std::regex") != 2:
        return

    def header(device, aot_mode=False):
        content = f"{DEVICE_WITHOUT_REGEX}#include <{TORCHS_HEADER(device, aot_mode)}>\n"
        file = Path(codecache.default_cache_dir(), f"optrush_{hashlib.sha256(content.encode()).hexdigest()[:16]}.h")
        if not file.exists():
            file.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile("w", dir=file.parent, delete=False) as made:
                made.write(content)
            os.replace(made.name, file)
        return str(file)

    codecache._get_cpp_wrapper_header = header


# Each wrapper begins with these functions. They use only what torch's headers declare.
INTERFACE = Path(cpp_wrapper_cpu.__file__).parent / "aoti_runtime/interface.cpp"
INTERFACE_ELSEWHERE = """\
#include <torch/csrc/inductor/aoti_runtime/interface.h>
#include <torch/csrc/inductor/aoti_runtime/model_container.h>

#include <iostream>
#include <vector>

namespace torch::aot_inductor {
extern template class AOTInductorModelBase<AOTInductorModel>;
}
"""
MODEL_BASE = "\nnamespace torch::aot_inductor {\ntemplate class AOTInductorModelBase<AOTInductorModel>;\n}\n"
one_at_a_time = threading.Lock()


def interface_object(options):
    """The object file for wrappers that are compiled with these options. The name of the precompiled header
    identifies its content."""
    source = INTERFACE.read_text() + MODEL_BASE
    command = CppBuilder("interface", "interface.cpp", options).get_command_line()
    name = f"optrush_interface_{hashlib.sha256((source + command).encode()).hexdigest()[:16]}.o"
    made = Path(codecache.default_cache_dir(), name)
    with one_at_a_time:
        if not made.exists():
            with tempfile.TemporaryDirectory(dir=made.parent) as build:
                Path(build, "interface.cpp").write_text(source)
                builder = CppBuilder("interface", f"{build}/interface.cpp", options, build)
                builder.build()
                os.replace(builder.get_target_file_path(), made)
    return str(made)


class BuilderWithInterface(CppBuilder):
    """Compiles a wrapper without the interface, and links the object file with it."""
    objects = {}  # of the interface, by that of the wrapper

    def __init__(self, name, sources, BuildOption, output_dir=""):
        if isinstance(sources, list):
            sources = sources + [self.objects[source] for source in sources if source in self.objects]
        super().__init__(name, sources, BuildOption, output_dir)
        if isinstance(sources, str) and sources.endswith(".wrapper.cpp"):
            wrapper, interface = Path(sources).read_text(), INTERFACE.read_text()
            if BuildOption.precompiled_header and wrapper.count(interface) == 1:
                self.objects[self.get_target_file_path()] = interface_object(BuildOption)
                Path(sources).write_text(wrapper.replace(interface, INTERFACE_ELSEWHERE))


def compile_the_interface_once():
    codecache.CppBuilder = BuilderWithInterface


def compile_ahead(device):
    """What AotCodeCompiler compiles before it builds the first half, by the arguments that it gives."""
    isa = cpu_vec_isa.pick_vec_isa()
    of_all = CppTorchDeviceOptions(vec_isa=isa, device_type=device, aot_mode=True)
    command = repr(CppBuilder(name="o", sources="i", BuildOption=of_all).get_command_line())
    arguments = {
        "aot_mode": True,
        "device_type": device,
        "use_mmap_weights": False,
        "use_mmap_weights_external": False,
        "use_relative_path": False,
        "vec_isa": isa,
    }
    wrapper = codecache._get_cpp_wrapper_header(device, aot_mode=True)
    options = CppTorchDeviceOptions(compile_only=True, min_optimize=True, **arguments)
    options.precompiled_header = codecache._precompile_header(wrapper, command, min_optimize=True, **arguments)
    interface_object(options)
    if kernels := codecache._get_cpp_prefix_header(device):
        codecache._precompile_header(kernels, command, **arguments)
