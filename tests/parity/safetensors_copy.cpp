// Reads every tensor of safetensors files and writes them to other files, for the round trip of
// safetensors_parity.py. One process copies all files, because loading LibTorch takes longer than a file.
// Prints a line of JSON for each pair: null, or the error.
#include <nlohmann/json.hpp>

#include <iostream>

#include "io/safetensors.h"

namespace {
void copy(const char* source, const char* target) {
  const optrush::SafetensorsFile file(source);
  std::vector<std::pair<std::string, optrush::Tensor>> tensors;
  for (const auto& name : file.names()) tensors.emplace_back(name, file.read(name));
  optrush::write_safetensors(target, std::move(tensors));
}
}  // namespace

int main(int argc, char** argv) {
  if (argc < 3 || argc % 2 == 0) {
    std::cerr << "usage: safetensors_copy IN OUT [IN OUT]...\n";
    return 2;
  }
  for (int i = 1; i < argc; i += 2) {
    nlohmann::json end;
    try {
      copy(argv[i], argv[i + 1]);
    } catch (const std::exception& e) {
      end = e.what();
    }
    std::cout << end.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) << std::endl;
  }
}
