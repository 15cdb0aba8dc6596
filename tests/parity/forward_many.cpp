// Runs `optrush-worker forward` many times in one process for forward_parity.py, because loading LibTorch
// takes longer than a small model. Reads a request per line, in JSON, and answers each with a line: null, or
// the error.
#include <nlohmann/json.hpp>

#include <iostream>
#include <string>

#include "exchange/exchange.h"
#include "plugin_check/library_state.h"

namespace {
void forward(const nlohmann::json& asked) {
  const optrush::LibraryState kept;  // a plugin chooses kernels for the whole process
  optrush::ForwardRequest request{.model = asked.at("model"),
                                  .tokens = asked.at("tokens").get<std::string>(),
                                  .out = asked.at("out").get<std::string>(),
                                  .dtype = asked.at("dtype"),
                                  .device = "cpu",
                                  .gradients = true};
  request.plugins = asked.at("plugins");
  optrush::forward_command(request);
}
}  // namespace

int main() {
  std::ostream answers(std::cout.rdbuf(std::cerr.rdbuf()));  // the command prints on std::cout
  for (std::string line; std::getline(std::cin, line);) {
    nlohmann::json end;
    try {
      forward(nlohmann::json::parse(line));
    } catch (const std::exception& e) {
      end = e.what();
    }
    answers << end.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) << std::endl;
  }
}
