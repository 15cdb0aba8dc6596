#include "measure/flops.h"

#include <ATen/core/function_schema.h>
#include <ATen/record_function.h>

#include <atomic>
#include <set>
#include <string_view>

#include "measure/noted.h"

namespace optrush {
namespace {
void matmul_parameters(const Unit& unit, std::set<const Param*>& found) {
  for (const auto& site : unit.sites)
    if (site.role == "linear" || site.role == "head_loss")
      for (const Param* param : site.params)
        if (param->shape.size() == 2) found.insert(param);
  for (const auto& child : unit.children) matmul_parameters(*child, found);
}

std::atomic<double>& counter() {
  static std::atomic<double> flops{0};  // callbacks of RecordFunction are plain functions without a context
  return flops;
}

double product(at::IntArrayRef sizes) {
  double n = 1;
  for (const int64_t size : sizes) n *= static_cast<double>(size);
  return n;
}

/// A fused kernel leaves out what the causal mask would throw away.
bool causal(const at::RecordFunction& fn) {
  const auto schema = fn.operator_schema();
  const auto index = schema ? schema->argumentIndexWithName("is_causal") : std::nullopt;
  return index && fn.inputs()[static_cast<size_t>(*index)].toBool();
}

double flops_of(const at::RecordFunction& fn) {
  const std::string_view name = fn.name();
  const auto in = fn.inputs();
  const auto tensor = [&](size_t i) -> const at::Tensor& { return in[i].toTensor(); };
  const auto matmul = [&](size_t a, size_t b) {
    return 2 * product(tensor(a).sizes()) * static_cast<double>(tensor(b).size(-1));
  };
  if (name == kNotedFlops) return in[0].toDouble();
  if (name == "aten::mm" || name == "aten::bmm") return matmul(0, 1);
  // In place as well: gradients that add up.
  if (name.starts_with("aten::addmm") || name.starts_with("aten::baddbmm")) return matmul(1, 2);
  // The math form calls matmuls, which are counted themselves.
  if (name.starts_with("aten::_scaled_dot_product_") && name.find("_math") == std::string_view::npos) {
    const bool backward = name.ends_with("_backward");
    const size_t q = backward ? 1 : 0;
    const double scores = 2 * product(tensor(q).sizes()) * static_cast<double>(tensor(q + 1).size(-2));
    return scores * (backward ? 5 : 2) / (causal(fn) ? 2 : 1);
  }
  return 0;
}
}  // namespace

ModelFlops model_flops(const Model& model, int64_t seq_len) {
  std::set<const Param*> matmuls;
  for (const auto& unit : model.units) matmul_parameters(*unit, matmuls);
  double dense = 0;
  for (const Param* param : matmuls)
    dense += static_cast<double>(param->numel()) * (param->trainable ? 6 : 4);
  const double attention = model.attention_flops_per_token_and_position * static_cast<double>(seq_len);
  return {dense + attention, dense + attention / 2};
}

ExecutedFlops::ExecutedFlops() {
  counter() = 0;
  handle_ = at::addGlobalCallback(
      at::RecordFunctionCallback([](const at::RecordFunction& fn) -> std::unique_ptr<at::ObserverContext> {
        const double flops = flops_of(fn);
        if (flops > 0) counter().fetch_add(flops);
        return nullptr;
      })
          .needsInputs(true)
          .scopes({at::RecordScope::FUNCTION}));
}
ExecutedFlops::~ExecutedFlops() { at::removeCallback(handle_); }
double ExecutedFlops::total() const { return counter(); }
}  // namespace optrush
