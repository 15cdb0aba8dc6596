// Reads every tensor of a safetensors file and writes them to another: the round trip that
// safetensors_parity.py checks.
#include <iostream>

#include "io/safetensors.h"

int main(int argc, char** argv) try {
  if (argc != 3) throw std::runtime_error("usage: safetensors_copy IN OUT");
  const optrush::SafetensorsFile file(argv[1]);
  std::vector<std::pair<std::string, optrush::Tensor>> tensors;
  for (const auto& name : file.names()) tensors.emplace_back(name, file.read(name));
  optrush::write_safetensors(argv[2], std::move(tensors));
} catch (const std::exception& e) {
  std::cerr << e.what() << "\n";
  return 1;
}
