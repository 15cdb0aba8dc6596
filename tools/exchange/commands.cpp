#include "exchange/commands.h"

#include "cli/commands.h"

void optrush::exchange::add_commands(CLI::App& app, int& /*code*/) {
  add_command_of_worker(app, "forward", "write logits, loss and gradients of a Hugging Face folder");
  add_command_of_worker(app, "weights",
                        "write the trained weights of a run as a Hugging Face or PEFT folder");
}
