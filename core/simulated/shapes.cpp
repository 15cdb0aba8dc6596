// Shape rules for operators that LibTorch lacks in C++. Their temporary memory counts for the peak.
#include <ATen/ExpandUtils.h>
#include <ATen/Functions.h>
#include <ATen/WrapDimUtils.h>

#include <algorithm>
#include <functional>
#include <map>
#include <string>

#include "measure/operator_costs.h"
#include "optrush/tensor.h"
#include "simulated/state.h"

namespace optrush::simulated {
namespace {
using torch::jit::Stack;

/// The arguments of a call by position in the schema. They are replaced by the results.
class Call {
 public:
  Call(const c10::FunctionSchema& schema, Stack& stack)
      : schema_(schema), stack_(stack), first_(stack.size() - schema.arguments().size()) {}
  const c10::IValue& argument(size_t i) const { return stack_[first_ + i]; }
  const c10::IValue& argument(const std::string& name) const {
    return argument(static_cast<size_t>(schema_.argumentIndexWithName(name).value()));
  }
  Tensor tensor(size_t i) const { return argument(i).toTensor(); }
  void give(std::vector<c10::IValue> outputs) {
    stack_.resize(first_);
    for (auto& output : outputs) stack_.push_back(std::move(output));
  }

 private:
  const c10::FunctionSchema& schema_;
  Stack& stack_;
  size_t first_;
};

// Attention has arguments (B, H, S, K), whose `heads` are axis 1, or (B, S, H, K), whose heads are axis 2.

/// Attention kernels write (B, S, H, K), and return a view if the arguments have another order.
Tensor heads_like(const Tensor& x, int64_t count, int64_t heads) {
  const Tensor made = at::empty({x.size(0), x.size(3 - heads), count, x.size(3)}, x.options());
  return heads == 1 ? made.transpose(1, 2) : made;
}
Tensor heads_like(const Tensor& x, int64_t heads = 1) { return heads_like(x, x.size(heads), heads); }
Tensor log_sum_exp(const Tensor& q, int64_t heads = 1) {
  return at::empty({q.size(0), q.size(heads), q.size(3 - heads)}, q.options().dtype(at::kFloat));
}

void flash_forward(Call& call) {
  const Tensor q = call.tensor(0);
  call.give({heads_like(q), log_sum_exp(q)});
}
/// FlashAttention 2 sums dQ in fp32, and computes dK and dV for every query head before it sums over groups.
void flash_backward(Call& call, int64_t heads) {
  const Tensor q = call.tensor(1), k = call.tensor(2), v = call.tensor(3);
  const Tensor d_q = heads_like(q, heads), d_k = heads_like(k, heads), d_v = heads_like(v, heads);
  const Tensor sum_q = at::empty(q.sizes(), q.options().dtype(at::kFloat)), row_sums = log_sum_exp(q, heads);
  const bool grouped = q.size(heads) != k.size(heads);
  const Tensor all_k = grouped ? heads_like(k, q.size(heads), heads) : Tensor();
  const Tensor all_v = grouped ? heads_like(v, q.size(heads), heads) : Tensor();
  call.give({d_q, d_k, d_v});
}
void where(Call& call) {
  const Tensor mask = call.tensor(0), yes = call.tensor(1), no = call.tensor(2);
  const auto shape = at::infer_size(mask.sizes(), at::infer_size(yes.sizes(), no.sizes()));
  call.give({at::empty(shape, mask.options().dtype(at::result_type(yes, no)))});
}
/// Each column of the solution is contiguous.
void solve_triangular(Call& call) {
  const Tensor sides = call.tensor(1);
  call.give({at::empty(sides.mT().sizes(), sides.options()).mT()});
}
/// The workspace of cuDNN holds dQ and one number per row in fp32. With shared keys, it also holds the
/// gradients of keys and values for every query head (the test cudnn_graphs asks cuDNN 9.26).
void cudnn_backward(Call& call) {
  const Tensor q = call.tensor(1), k = call.tensor(2), v = call.tensor(3);
  const Tensor d_q = heads_like(q), d_k = heads_like(k), d_v = heads_like(v);
  const int64_t sums = q.numel() + q.size(0) * q.size(1) * q.size(2);
  const Tensor workspace = at::empty({sums}, q.options().dtype(at::kFloat));
  const bool grouped = q.size(1) != k.size(1);
  const Tensor all_k = grouped ? heads_like(k, q.size(1), 1) : Tensor();
  const Tensor all_v = grouped ? heads_like(v, q.size(1), 1) : Tensor();
  call.give({d_q, d_k, d_v});
}
/// Outputs of the GPU operators: out, lse, four descriptions of packed sequences, two parts of the
/// generator's state, and a debug mask.
void gpu_attention_forward(Call& call) {
  const Tensor q = call.tensor(0), out = q.narrow(3, 0, call.tensor(2).size(3));
  const Tensor state = at::empty({}, q.options().dtype(at::kLong));
  call.give({heads_like(out), log_sum_exp(q), Tensor(), Tensor(), q.size(2), call.tensor(1).size(2), state,
             state, Tensor()});
}

/// The same kernels with (B, S, H, K) arguments: out, lse, generator state, an empty tensor, debug mask.
void window_forward(Call& call) {
  const Tensor q = call.tensor(0), lse = log_sum_exp(q, 2);
  call.give({at::empty(q.sizes(), q.options()), lse, at::empty({2}, q.options().dtype(at::kLong)),
             at::empty({}, q.options().dtype(at::kLong)), Tensor()});
}

void index_select(Call& call) {
  const Tensor self = call.tensor(0);
  auto sizes = self.sizes().vec();
  sizes.at(static_cast<size_t>(at::maybe_wrap_dim(call.argument(1).toInt(), self.dim()))) =
      call.tensor(2).numel();
  call.give({at::empty(sizes, self.options())});
}
/// A GPU sorts the tokens of a large batch and sums at most ten rows of an entry at a time in fp32
/// (ATen/native/cuda/Embedding.cu, EmbeddingBackwardKernel.cu).
void embedding_dense_backward(Call& call) {
  constexpr int64_t kRows = 10;
  const Tensor gradient = call.tensor(0), tokens = call.tensor(1);
  const int64_t entries = call.argument("num_weights").toInt(), width = gradient.size(-1);
  const auto result = [&] { return at::empty({entries, width}, gradient.options()); };
  if (form().type != at::kCUDA || tokens.numel() <= kEmbeddingTokensUnsorted) return call.give({result()});
  const auto numbers = [&](int64_t count) { return at::empty({count}, tokens.options()); };
  const Tensor sorted = numbers(tokens.numel()), order = numbers(tokens.numel());
  {  // the original order, and temporary memory of the sort
    const Tensor range = numbers(tokens.numel()), beside = numbers(2 * tokens.numel() + 2304);
  }
  const Tensor sum = result();
  const int64_t different = std::min(tokens.numel(), entries), parts = tokens.numel() / kRows + different;
  const Tensor begins = numbers(tokens.numel()), count = numbers(1);
  numbers(tokens.numel());  // distinct tokens
  const Tensor parts_of_each = numbers(different), first_parts = numbers(different),
               count_of_parts = numbers(1), begins_of_parts = numbers(parts);
  const auto wide = gradient.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  const Tensor sums = at::empty({parts, width}, gradient.options().dtype(wide));
  call.give({sum});
}
/// mm and similar operators if the result has another type than the operands.
void matmul_into(Call& call, const Tensor& a, const Tensor& b, const c10::IValue& type) {
  const auto result = type.isNone() ? a.scalar_type() : type.toScalarType();
  call.give({at::empty({a.size(0), b.size(1)}, a.options().dtype(result))});
}
/// Rows times the matrix of their group (2-D times 3-D), or products of each group's rows (2-D times 2-D).
void grouped_matmul(Call& call) {
  const Tensor a = call.tensor(0), b = call.tensor(1);
  if (b.dim() == 3)
    call.give({at::empty({a.size(0), b.size(2)}, a.options())});
  else
    call.give({at::empty({call.argument("offs").toTensor().numel(), a.size(0), b.size(1)}, a.options())});
}
/// Elementwise operators of one or two tensors with an `out` argument.
void into_out(Call& call) {
  const Tensor a = call.tensor(0), out = call.argument("out").toTensor();
  const bool is_binary = !call.tensor(1).is_same(out);
  out.resize_(is_binary ? at::infer_size(a.sizes(), call.tensor(1).sizes()) : a.sizes().vec());
  call.give({out});
}
void as_the_first(Call& call) { call.give({at::empty_like(call.tensor(0))}); }
void nothing(Call& call) { call.give({}); }

using Rule = std::function<void(Call&)>;
const std::map<std::string, Rule>& rules() {
  static const std::map<std::string, Rule> kRules = {
      {"aten::index_select", index_select},
      {"aten::embedding_dense_backward", embedding_dense_backward},
      {"aten::_scaled_dot_product_flash_attention_for_cpu", flash_forward},
      {"aten::_scaled_dot_product_flash_attention_for_cpu_backward", [](Call& c) { flash_backward(c, 1); }},
      {"aten::_scaled_dot_product_flash_attention", gpu_attention_forward},
      {"aten::_scaled_dot_product_flash_attention_backward", [](Call& c) { flash_backward(c, 1); }},
      {"aten::_flash_attention_forward", window_forward},
      {"aten::_flash_attention_backward", [](Call& c) { flash_backward(c, 2); }},
      {"aten::_scaled_dot_product_cudnn_attention", gpu_attention_forward},
      {"aten::_scaled_dot_product_cudnn_attention_backward", cudnn_backward},
      {"aten::mm.dtype", [](Call& c) { matmul_into(c, c.tensor(0), c.tensor(1), c.argument(2)); }},
      {"aten::addmm.dtype", [](Call& c) { matmul_into(c, c.tensor(1), c.tensor(2), c.argument(3)); }},
      {"aten::_scaled_mm",
       [](Call& c) { matmul_into(c, c.tensor(0), c.tensor(1), c.argument("out_dtype")); }},
      {"aten::_scaled_mm_v2",
       [](Call& c) { matmul_into(c, c.tensor(0), c.tensor(1), c.argument("out_dtype")); }},
      {"aten::mm.dtype_out", [](Call& c) { c.give({c.argument("out")}); }},
      {"aten::addmm.dtype_out", [](Call& c) { c.give({c.argument("out")}); }},
      {"aten::_grouped_mm", grouped_matmul},
      {"aten::abs.out", into_out},
      {"aten::logical_and.out", into_out},
      {"aten::logical_not.out", into_out},
      {"aten::logical_or.out", into_out},
      {"aten::where.self", where},
      {"aten::linalg_solve_triangular", solve_triangular},
      {"aten::flip", as_the_first},
      {"aten::relu", as_the_first},
      {"aten::_fused_adamw_", nothing},
      {"aten::_fused_adamw_.tensor_lr", nothing},
      {"aten::_amp_foreach_non_finite_check_and_unscale_", nothing},
      {"aten::_amp_update_scale_", [](Call& c) { c.give({c.argument(0)}); }},
  };
  return kRules;
}
}  // namespace

bool run_shape_rule(const c10::OperatorHandle& op, Stack& stack) {
  const auto& name = op.schema().operator_name();
  const auto found =
      rules().find(name.overload_name.empty() ? name.name : name.name + "." + name.overload_name);
  if (found == rules().end()) return false;
  Call call(op.schema(), stack);
  found->second(call);
  return true;
}
}  // namespace optrush::simulated
