#include "choice.h"

#include <ATen/Functions.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/csrc/autograd/autograd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <fstream>
#include <vector>

#include "optrush/error.h"
#include "optrush/json.h"
#include "optrush/mesh.h"
#include "unit_graph.h"

namespace optrush::compile {
namespace fs = std::filesystem;
namespace {
/// Equal on all ranks, because a unit may have sums over ranks.
constexpr int kWarmups = 2, kTimed = 7;

/// While this lives, other leaves with the same values replace a unit's parameters. The hooks of techniques
/// are registered on the original leaves, so they do not run when a gradient reaches a parameter.
class StandInLeaves {
 public:
  explicit StandInLeaves(const Unit& unit) : params_(unit.params()) {
    for (Param* param : params_) {
      kept_.push_back(param->leaf);
      if (param->leaf.defined())
        param->leaf = param->leaf.detach().requires_grad_(param->leaf.requires_grad());
    }
  }
  ~StandInLeaves() {
    for (size_t i = 0; i < params_.size(); ++i) params_[i]->leaf = kept_[i];
  }
  StandInLeaves(const StandInLeaves&) = delete;
  StandInLeaves& operator=(const StandInLeaves&) = delete;

 private:
  std::vector<Param*> params_;
  Tensors kept_;
};

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}
}  // namespace

Choice measure(const CompiledUnit& compiled, const UnitFunction& eager, const Unit& unit, const Tensor& given,
               const Batch& batch) {
  const at::AutoGradMode with_gradients(true);
  const StandInLeaves leaves_of_params(unit);
  const Tensor x = given.detach().requires_grad_(given.requires_grad());
  const Tensors inputs = unit_inputs(unit, x, batch);
  Tensors leaves;
  for (const auto& input : inputs)
    if (input.requires_grad()) leaves.push_back(input);
  const auto wait = [device = x.device()] {
    if (!device.is_cpu())
      c10::impl::VirtualGuardImpl(device.type())
          .synchronizeDevice(device.has_index() ? device.index() : c10::DeviceIndex(0));
  };
  const auto seconds_of = [&](const auto& forward) {
    at::autocast::clear_cache();  // a step casts the parameters anew
    wait();
    const auto start = std::chrono::steady_clock::now();
    const Tensor out = forward();
    if (!leaves.empty())
      torch::autograd::grad({out}, leaves, {at::ones_like(out)}, /*retain_graph=*/{}, /*create_graph=*/false,
                            /*allow_unused=*/true);
    wait();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  std::vector<double> of_compiled, of_eager;
  for (int i = 0; i < kWarmups + kTimed; ++i) {
    const double compiled_seconds = seconds_of([&] { return compiled(inputs); });
    const double eager_seconds = seconds_of([&] { return eager(x, batch); });
    if (i < kWarmups) continue;
    of_compiled.push_back(compiled_seconds);
    of_eager.push_back(eager_seconds);
  }
  return {median(of_compiled), median(of_eager)};
}

std::optional<Choice> of_first_rank(const std::optional<Choice>& mine, Run& run) {
  Mesh::Names dims;
  for (const auto& dim : run.mesh().dims())
    if (dim.splits != Splits::layers) dims.push_back(dim.name);
  Choice choice = mine.value_or(Choice{});
  if (run.mesh().size(dims) > 1) {
    const Tensor told = at::tensor({choice.compiled, choice.eager}, at::kDouble).to(run.device());
    run.mesh().group(dims).broadcast(told, 0).wait();
    choice = {told[0].item<double>(), told[1].item<double>()};
  }
  return choice.eager > 0 ? std::optional(choice) : std::nullopt;
}

std::optional<Choice> read_choice(const fs::path& file) {
  std::ifstream in(file);
  if (!in) return {};
  const Json stored = Json::parse(in);
  return Choice{stored.at("compiled_seconds"), stored.at("eager_seconds")};
}

void write_choice(const fs::path& file, const Choice& choice) {
  fs::create_directories(file.parent_path());
  std::array<char, 256> host{};  // because machines may share the folder
  ::gethostname(host.data(), host.size() - 1);
  const fs::path part = file.string() + "." + host.data() + "." + std::to_string(::getpid());
  std::ofstream out(part);
  out << Json{{"compiled_seconds", choice.compiled}, {"eager_seconds", choice.eager}}.dump(1) << '\n';
  out.close();
  if (!out) {
    std::error_code ignored;
    fs::remove(part, ignored);
    throw Error(ErrorCode::file_access, "cannot write " + part.string(),
                "check the disk space, or set the option 'cache' to another folder");
  }
  fs::rename(part, file);
}
}  // namespace optrush::compile
